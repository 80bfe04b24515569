//! Runs whole stories in simulated worlds, with a coordinator that dies.

/// Seconds after which a story has to have ended: ten tries with their delays,
/// a node that stays away, and some.
pub const LIMIT: u32 = 6000;

/// A world in which a coordinator works.
pub trait Simulated {
    /// Effects that are left before the coordinator dies.
    fn fuse(&mut self) -> &mut Option<u32>;

    /// Effects that it had.
    fn effects(&self) -> u32;

    /// One reconcile; whether the coordinator lives on.
    fn look(&mut self) -> bool;

    /// A second passes.
    fn pass(&mut self);

    /// How everything is, for people.
    fn told(&self) -> String;
}

/// Runs a story with a coordinator that dies before effect `death`, until the
/// world stays as it has to end. Answers with the number of effects.
pub fn run<W: Simulated>(
    name: &str,
    mut world: W,
    script: fn(&mut W, u32),
    end: fn(&W) -> bool,
    death: Option<u32>,
) -> u32 {
    *world.fuse() = death;
    let mut quiet = 0;
    for second in 0..LIMIT {
        script(&mut world, second);
        if !world.look() {
            // The next one takes over some seconds later.
            *world.fuse() = None;
            (0..3).for_each(|_| world.pass());
        }
        world.pass();
        quiet = if end(&world) { quiet + 1 } else { 0 };
        // It has to stay as it is, past anything that a script still does.
        if quiet > 60 && second > 60 {
            return world.effects();
        }
    }
    let told = world.told();
    panic!("{name}: with a death before effect {death:?} it ends as {told}");
}

/// Runs a story undisturbed, and then once for each effect of that run with a
/// death before it.
pub fn everywhere(name: &str, story: impl Fn(Option<u32>) -> u32) {
    let effects = story(None);
    assert!(effects > 0, "{name}: nothing is done");
    for death in 0..effects {
        story(Some(death));
    }
}
