//! Disks come and go in a random order while whoever leads is killed over
//! and over: what is to stay becomes whole, what is to go leaves nothing.
//!
//! The order follows from a seed that is printed; `HCS_E2E_SEED` repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use e2e::cluster::Scope;
use e2e::disk::{self, Disk, Recipe};
use e2e::source::stage;
use e2e::wait::{until, when};
use e2e::{agents, image, reader, system, vm_disk};
use hypercloud_api::{DiskMethod, DiskPhase, VirtualMachineImage, VirtualMachinePvc, names};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// The class whose volumes are made at once.
const IMMEDIATE: &str = "loopfile-immediate";
/// Disks that are there before the first operation.
const FIRST: usize = 10;
/// So many disks are then made, and as many deleted.
const EACH: usize = 50;
/// How many disks may be under way before the next operation waits, in the
/// part of the time in which operations wait for the leader.
const UNDER_WAY: usize = 6;
/// How long all disks together may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// What a disk is made from, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// From the image, beside it.
    Cloned,
    /// From the image, in the other namespace.
    HandedOver,
    /// From the claim of the first disk.
    OfClaim,
    /// From the image in the other volume mode.
    Copied,
    /// The same in the other namespace.
    CopiedOver,
}

impl Kind {
    /// How many of each are made; the first disk is one more.
    const MIXTURE: [(Self, usize); 5] = [
        (Self::Cloned, 26),
        (Self::HandedOver, 17),
        (Self::OfClaim, 10),
        (Self::Copied, 4),
        (Self::CopiedOver, 2),
    ];

    fn is_tenants(self) -> bool {
        matches!(self, Self::HandedOver | Self::CopiedOver)
    }

    fn is_file(self) -> bool {
        matches!(self, Self::Copied | Self::CopiedOver)
    }

    fn method(self) -> DiskMethod {
        match self {
            Self::Cloned | Self::OfClaim => DiskMethod::Clone,
            Self::HandedOver => DiskMethod::CloneAndHandOver,
            Self::Copied | Self::CopiedOver => DiskMethod::Copy,
        }
    }
}

/// A disk that was made and is to stay, so far.
#[derive(Clone, Debug)]
struct Made {
    name: String,
    kind: Kind,
    uid: String,
}

struct Chaos {
    owner: Scope,
    tenant: Scope,
    random: StdRng,
    /// Still to be made, the next one last.
    coming: Vec<Kind>,
    /// The first one is the source of others and is never deleted.
    alive: Vec<Made>,
    /// UIDs of all that were ever made, and of the image.
    uids: BTreeSet<String>,
}

fn seed() -> anyhow::Result<u64> {
    match std::env::var("HCS_E2E_SEED") {
        Ok(seed) => seed.parse().context("HCS_E2E_SEED is not a number"),
        Err(_) => Ok(rand::rng().random()),
    }
}

impl Chaos {
    /// An image that both namespaces may use, and nothing made from it yet.
    async fn new(mut random: StdRng) -> anyhow::Result<(Self, Disk)> {
        let (owner, server) = stage("chaos").await?;
        system::all_ready(&owner.cluster, "node-agent").await?;
        system::all_ready(&owner.cluster, "coordinator").await?;
        let tenant = owner.cluster.scope("chaos-tenant").await?;
        let small = Recipe {
            virtual_size: 64 * MIB,
            data: 8 * MIB,
            convert: disk::ZLIB,
        }
        .make()?;
        let address = server.file("small", &small.image)?;
        let spec = json!({"storageClassName": IMMEDIATE, "source": {"http": address.url}});
        let image = image::of(&owner, "small", spec).await?;
        let grant = json!({"spec": {"sharedWith": {"namespaces": [tenant.namespace]}}});
        owner
            .api::<VirtualMachineImage>()
            .patch("small", &PatchParams::default(), &Patch::Merge(&grant))
            .await?;
        image::ready(&owner, "small", image::IMPORT).await?;
        let mut coming: Vec<_> = Kind::MIXTURE
            .iter()
            .flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count))
            .collect();
        coming.shuffle(&mut random);
        coming.push(Kind::Cloned);
        let chaos = Self {
            owner,
            tenant,
            random,
            coming,
            alive: Vec::new(),
            uids: image.uid().into_iter().collect(),
        };
        Ok((chaos, small))
    }

    fn scope(&self, kind: Kind) -> &Scope {
        if kind.is_tenants() {
            &self.tenant
        } else {
            &self.owner
        }
    }

    fn spec(&self, kind: Kind) -> Value {
        let mut spec = match kind {
            Kind::OfClaim => json!({"pvcName": self.alive[0].name}),
            _ => json!({"virtualMachineImageName": "small"}),
        };
        if kind.is_tenants() {
            spec["virtualMachineImageNamespace"] = json!(self.owner.namespace);
        }
        if kind.is_file() {
            spec["pvc"] = json!({"volumeMode": "Filesystem"});
        }
        spec
    }

    async fn make(&mut self) -> anyhow::Result<()> {
        let kind = self.coming.pop().context("nothing is to be made")?;
        let name = format!("disk-{:02}", self.coming.len());
        let made = vm_disk::of(self.scope(kind), &name, self.spec(kind)).await?;
        let uid = made.uid().unwrap_or_default();
        self.uids.insert(uid.clone());
        self.alive.push(Made { name, kind, uid });
        Ok(())
    }

    /// Asks for the deletion of any but the first, however far it has come.
    async fn delete(&mut self) -> anyhow::Result<()> {
        let which = self.random.random_range(1..self.alive.len());
        let gone = self.alive.remove(which);
        let disks = self.scope(gone.kind).api::<VirtualMachinePvc>();
        disks.delete(&gone.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Every disk that there is, by its UID.
    async fn disks(&self) -> anyhow::Result<BTreeMap<String, VirtualMachinePvc>> {
        let mut all = BTreeMap::new();
        for scope in [&self.owner, &self.tenant] {
            let found = scope.api::<VirtualMachinePvc>();
            for disk in found.list(&ListParams::default()).await? {
                all.insert(disk.uid().unwrap_or_default(), disk);
            }
        }
        Ok(all)
    }

    /// The disks that are to stay and are not Ready yet, with what they say.
    async fn waiting(&self) -> anyhow::Result<Vec<String>> {
        let disks = self.disks().await?;
        let mut waiting = Vec::new();
        for made in &self.alive {
            let disk = disks.get(&made.uid);
            let disk = disk.with_context(|| format!("{} is gone", made.name))?;
            let status = disk.status.clone().unwrap_or_default();
            if status.phase != Some(DiskPhase::Ready) {
                let said = vm_disk::reason(&status);
                waiting.push(format!("{} {:?} {said:?}", made.name, made.kind));
            }
        }
        Ok(waiting)
    }

    /// Waits until no more than `count` of the disks that are to stay are
    /// not Ready yet.
    async fn under_way(&self, count: usize) -> anyhow::Result<()> {
        until("the disks become Ready", LIMIT, || async {
            let waiting = self.waiting().await?;
            Ok(when(waiting.len() <= count, waiting))
        })
        .await
    }

    /// Kills whoever leads, who may have the time to give the Lease back;
    /// not if it is `frozen` first: then nobody leads before it has expired.
    async fn depose(&self, frozen: bool) -> anyhow::Result<()> {
        let cluster = &self.owner.cluster;
        let leader = system::living_leader(cluster).await?;
        let waiting = self.waiting().await?.len();
        // Where none of this machine's processes is the pod's, that kills it.
        if !frozen || system::stop_dead(cluster, &leader).await? {
            system::kill(cluster, &leader).await?;
        }
        println!("{leader} killed with {waiting} disks under way, frozen: {frozen}");
        Ok(())
    }

    /// All operations. After each kill the first half of them until the next
    /// one follows at once, while nobody leads; the others keep the new leader
    /// busy, so that it is killed in the middle of its work.
    async fn run(&mut self) -> anyhow::Result<usize> {
        for _ in 0..FIRST {
            self.make().await?;
        }
        let mut kills = 0;
        let mut round = self.random.random_range(12..=25);
        let mut left = round;
        let mut deletions = EACH;
        while !self.coming.is_empty() || deletions > 0 {
            if left == 0 {
                self.depose(kills == 1).await?;
                kills += 1;
                round = self.random.random_range(12..=25);
                left = round;
            }
            if left <= round / 2 {
                self.under_way(UNDER_WAY).await?;
            }
            let all = self.coming.len() + deletions;
            let deletes = self.random.random_range(0..all) < deletions;
            if self.coming.is_empty() || (deletes && self.alive.len() > 1) {
                self.delete().await?;
                deletions -= 1;
            } else {
                self.make().await?;
            }
            left -= 1;
        }
        Ok(kills)
    }

    /// What there is beside what is to be there: disks, claims and volumes
    /// that are too many or missing, and every pod and job.
    async fn disorder(&self, image: bool) -> anyhow::Result<Vec<String>> {
        let alive: BTreeSet<_> = self.alive.iter().map(|made| &made.uid).collect();
        let mut wrong = Vec::new();
        for (uid, disk) in self.disks().await? {
            if !alive.contains(&uid) {
                wrong.push(format!("disk {} {:?}", disk.name_any(), disk.status));
            }
        }
        let all = ListParams::default();
        let mut claims = Vec::new();
        let mut wanted = Vec::new();
        let volumes: Api<PersistentVolume> = Api::all(self.owner.cluster.client.clone());
        let volumes = volumes.list(&all).await?.items;
        let mut of_volumes = Vec::new();
        for scope in [&self.owner, &self.tenant] {
            let space = &scope.namespace;
            for pod in scope.api::<Pod>().list(&all).await? {
                wrong.push(format!("pod {space}/{}", pod.name_any()));
            }
            for claim in scope.api::<PersistentVolumeClaim>().list(&all).await? {
                let phase = claim.status.clone().and_then(|status| status.phase);
                let phase = phase.unwrap_or_default();
                claims.push(format!("{space}/{} {phase}", claim.name_any()));
            }
            let ours = |claim: &&ObjectReference| claim.namespace.as_ref() == Some(space);
            let references = volumes
                .iter()
                .filter_map(|volume| volume.spec.as_ref()?.claim_ref.as_ref())
                .filter(ours);
            of_volumes.extend(references.map(|claim| {
                let name = claim.name.as_deref().unwrap_or_default();
                format!("{space}/{name} Bound")
            }));
        }
        if image {
            let claim = names::image_claim("small");
            wanted.push(format!("{}/{claim} Bound", self.owner.namespace));
        }
        for made in &self.alive {
            let space = &self.scope(made.kind).namespace;
            wanted.push(format!("{space}/{} Bound", made.name));
        }
        // Lists, not sets: two volumes of one claim are one too many.
        for (what, mut found) in [("claim", claims), ("volume of", of_volumes)] {
            for wanted in &wanted {
                match found.iter().position(|found| found == wanted) {
                    Some(at) => drop(found.swap_remove(at)),
                    None => wrong.push(format!("no {what} {wanted}")),
                }
            }
            wrong.extend(found.iter().map(|found| format!("{what} {found}")));
        }
        for (agent, job) in agents::jobs(&self.owner.cluster).await? {
            let uid = names::parse_job_id(&job.id).map_or("", |(uid, _)| uid);
            if self.uids.contains(uid) {
                wrong.push(format!("job {} of {agent}", job.id));
            }
        }
        Ok(wrong)
    }

    async fn in_order(&self, image: bool) -> anyhow::Result<()> {
        until("nothing is left over", image::DELETION, || async {
            let wrong = self.disorder(image).await?;
            Ok(when(wrong.is_empty(), wrong))
        })
        .await
    }

    /// Reads one disk that was handed over and one that was copied, or what
    /// there is.
    async fn read_back(&self, small: &Disk) -> anyhow::Result<()> {
        let over = self.alive.iter().rfind(|made| made.kind.is_tenants());
        let over = over.or(self.alive.last());
        let file = self.alive.iter().find(|made| made.kind.is_file());
        let file = file.filter(|file| over.is_none_or(|over| over.uid != file.uid));
        for made in over.into_iter().chain(file) {
            let scope = self.scope(made.kind);
            let sha256 = if made.kind.is_file() {
                reader::file_sha256(scope, &made.name).await?.0
            } else {
                reader::block_sha256(scope, &made.name, small.virtual_size).await?
            };
            assert_eq!(sha256, small.sha256, "{made:?}");
        }
        Ok(())
    }
}

#[tokio::test]
async fn disks_come_and_go_while_whoever_leads_is_killed() -> anyhow::Result<()> {
    let _alone = system::disturb().await;
    let seed = seed()?;
    println!("HCS_E2E_SEED={seed}");
    let (mut chaos, small) = Chaos::new(StdRng::seed_from_u64(seed)).await?;
    let begun = Instant::now();
    let done = async {
        let kills = chaos.run().await?;
        assert!(kills >= 3, "{kills} kills");
        println!("{kills} leaders killed in {:?}", begun.elapsed());
        chaos.under_way(0).await?;
        println!("what is to stay is Ready after {:?}", begun.elapsed());
        chaos.in_order(true).await?;
        println!("nothing is left over after {:?}", begun.elapsed());
        for (uid, disk) in chaos.disks().await? {
            let kind = chaos.alive.iter().find(|made| made.uid == uid);
            let kind = kind.context("a disk of nobody")?.kind;
            vm_disk::assert_made_by(&disk.status.unwrap_or_default(), kind.method());
        }
        chaos.read_back(&small).await?;
        while chaos.alive.len() > 1 {
            chaos.delete().await?;
        }
        let first = chaos.alive.remove(0);
        vm_disk::delete(&chaos.owner, &first.name, &DeleteParams::default()).await?;
        image::delete(&chaos.owner, "small").await?;
        chaos.in_order(false).await
    };
    let done: anyhow::Result<()> = done.await;
    done.with_context(|| format!("with HCS_E2E_SEED={seed}"))?;
    println!("all is gone after {:?}", begun.elapsed());
    chaos.owner.close().await?;
    chaos.tenant.close().await
}
