package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	block      = &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	fileMode   = &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}
	background = context.Background()
)

// driver is one process's worth of services; a second one on the same
// directory is the driver after a restart.
type driver struct {
	*controller
	node  *node
	paths string
}

func newDriver(t *testing.T, root string) *driver {
	t.Helper()
	needRoot(t)
	store, err := openStore(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.sweep(); err != nil {
		t.Fatal(err)
	}
	return &driver{
		controller: &controller{store: store, busy: newBusy()},
		node:       &node{store: store, name: "node-a", busy: newBusy()},
		paths:      filepath.Dir(root),
	}
}

func (d *driver) create(t *testing.T, name string, bytes int64, how *csi.VolumeCapability, source *csi.VolumeContentSource) string {
	t.Helper()
	reply, err := d.CreateVolume(background, &csi.CreateVolumeRequest{
		Name:                      name,
		CapacityRange:             &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities:        []*csi.VolumeCapability{how},
		VolumeContentSource:       source,
		AccessibilityRequirements: &csi.TopologyRequirement{Preferred: topologies("node-a")},
	})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return reply.GetVolume().GetVolumeId()
}

func (d *driver) staging(id string) string { return filepath.Join(d.paths, "staging-"+id) }

// stage stages the volume, and sees to it that the test leaves no device.
func (d *driver) stage(t *testing.T, id string, how *csi.VolumeCapability) string {
	t.Helper()
	t.Cleanup(func() { d.unstage(t, id) })
	_, err := d.node.NodeStageVolume(background, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: d.staging(id), VolumeCapability: how,
	})
	if err != nil {
		t.Fatalf("stage %s: %v", id, err)
	}
	found, err := d.store.volume(id)
	if err != nil {
		t.Fatal(err)
	}
	device, err := findLoop(d.store.volumeFile(found))
	if err != nil || device == "" {
		t.Fatalf("no device for %s: %v", id, err)
	}
	return device
}

func (d *driver) unstage(t *testing.T, id string) {
	t.Helper()
	_, err := d.node.NodeUnstageVolume(background, &csi.NodeUnstageVolumeRequest{
		VolumeId: id, StagingTargetPath: d.staging(id),
	})
	if err != nil {
		t.Fatalf("unstage %s: %v", id, err)
	}
}

func (d *driver) remove(t *testing.T, id string) {
	t.Helper()
	if _, err := d.DeleteVolume(background, &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		t.Fatalf("delete %s: %v", id, err)
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
		file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func expectText(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := make([]byte, len(text))
	if _, err := file.Read(found); err != nil || string(found) != text {
		t.Errorf("%s: %q, %v; want %q", path, found, err, text)
	}
}

func fromVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
	}}
}

func TestRestartForgetsNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	before := newDriver(t, root)
	id := before.create(t, "volume", 8<<20, block, nil)
	device := before.stage(t, id, block)

	after := newDriver(t, root)
	if again := after.create(t, "volume", 8<<20, block, nil); again != id {
		t.Errorf("another volume %s under the same name", again)
	}
	if again := after.stage(t, id, block); again != device {
		t.Errorf("a second device %s besides %s", again, device)
	}
	_, err := after.DeleteVolume(background, &csi.DeleteVolumeRequest{VolumeId: id})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a volume in use was deleted: %v", err)
	}
	after.unstage(t, id)
	after.remove(t, id)
	expectNothingLeft(t, root)
}

func TestSnapshotKeepsWhatWasNotFlushed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	d := newDriver(t, root)
	id := d.create(t, "volume", 8<<20, block, nil)
	device := d.stage(t, id, block)
	// Through the device's page cache; nothing asks for it to be written.
	writeText(t, device, "first")
	taken, err := d.CreateSnapshot(background, &csi.CreateSnapshotRequest{Name: "snapshot", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, device, "later")
	snapshot := taken.GetSnapshot().GetSnapshotId()
	restored := d.create(t, "restored", 16<<20, block, fromSnapshot(snapshot))
	cloned := d.create(t, "cloned", 8<<20, block, fromVolume(id))
	restoredDevice := d.stage(t, restored, block)
	expectText(t, restoredDevice, "first")
	expectText(t, d.stage(t, cloned, block), "later")
	if bytes, err := deviceBytes(restoredDevice); err != nil || bytes != 16<<20 {
		t.Errorf("the restored device has %d bytes, %v", bytes, err)
	}
	for _, each := range []string{id, restored, cloned} {
		d.unstage(t, each)
		d.remove(t, each)
	}
	if _, err := d.DeleteSnapshot(background, &csi.DeleteSnapshotRequest{SnapshotId: snapshot}); err != nil {
		t.Fatal(err)
	}
	expectNothingLeft(t, root)
}

func TestFileSystemGrowsWithItsVolume(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	d := newDriver(t, root)
	id := d.create(t, "volume", 32<<20, fileMode, nil)
	d.stage(t, id, fileMode)
	writeText(t, filepath.Join(d.staging(id), "file"), "kept")
	d.unstage(t, id)
	_, err := d.ControllerExpandVolume(background, &csi.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 64 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.stage(t, id, fileMode)
	expectText(t, filepath.Join(d.staging(id), "file"), "kept")
	var usage unix.Statfs_t
	if err := unix.Statfs(d.staging(id), &usage); err != nil {
		t.Fatal(err)
	}
	if bytes := int64(usage.Blocks) * usage.Bsize; bytes < 40<<20 {
		t.Errorf("the file system has %d bytes", bytes)
	}
}

func TestForeignContentIsNeverFormatted(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	d := newDriver(t, root)
	id := d.create(t, "volume", 8<<20, fileMode, nil)
	found, err := d.store.volume(id)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("mkswap", d.store.volumeFile(found)).CombinedOutput(); err != nil {
		t.Fatalf("mkswap: %v: %s", err, output)
	}
	t.Cleanup(func() { d.unstage(t, id) })
	_, err = d.node.NodeStageVolume(background, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: d.staging(id), VolumeCapability: fileMode,
	})
	if err == nil || !strings.Contains(err.Error(), "swap") {
		t.Errorf("got %v", err)
	}
}

func TestVolumeOfAnotherNodeIsRefused(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	d := newDriver(t, root)
	id := d.create(t, "volume", 8<<20, block, nil)
	d.node.name = "node-b"
	_, err := d.node.NodeStageVolume(background, &csi.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: d.staging(id), VolumeCapability: block,
	})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

func TestBlockSizeAndCloningFollowTheClass(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	d := newDriver(t, root)
	request := &csi.CreateVolumeRequest{
		Name:                      "volume",
		CapacityRange:             &csi.CapacityRange{RequiredBytes: 8 << 20},
		VolumeCapabilities:        []*csi.VolumeCapability{block},
		Parameters:                map[string]string{"blockSize": "4096", "cloning": "refused"},
		AccessibilityRequirements: &csi.TopologyRequirement{Preferred: topologies("node-a")},
	}
	reply, err := d.CreateVolume(background, request)
	if err != nil {
		t.Fatal(err)
	}
	id := reply.GetVolume().GetVolumeId()
	device := d.stage(t, id, block)
	size, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/queue/logical_block_size")
	if err != nil || strings.TrimSpace(string(size)) != "4096" {
		t.Errorf("logical block size %q, %v", size, err)
	}
	request.Name, request.VolumeContentSource = "clone", fromVolume(id)
	if _, err := d.CreateVolume(background, request); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a clone was not refused: %v", err)
	}
}
