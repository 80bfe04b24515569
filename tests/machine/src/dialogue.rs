//! What is said to a machine over its console, and what its answers mean.
//! Text in, meaning out: nothing here reads or waits.

/// Longest command in bytes: a terminal takes a line of 4095, and the command
/// is wrapped.
const LONGEST: usize = 3000;
/// Begins a line of this program in the transcript.
const MARK: &str = "==";
/// What the shell says when it is ready to take commands.
const READY: &str = "shell-is-ready";

/// Something found in a text, and where it ends there.
#[derive(Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// What it means.
    pub meaning: T,
    /// Bytes up to its end.
    pub end: usize,
}

/// What follows a password.
#[derive(Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The prompt of a shell.
    Shell,
    /// Another user or password is wanted.
    Refused,
}

/// Whether a command can be said.
pub fn check(command: &str) -> Result<(), &'static str> {
    if command.trim().is_empty() {
        return Err("an empty command");
    }
    if command.chars().any(char::is_control) {
        return Err("a command is one line without control characters; use `;` or `&&`");
    }
    if command.len() > LONGEST {
        return Err("the command is longer than 3000 bytes");
    }
    Ok(())
}

/// What nobody recovers from by waiting.
pub fn trouble(text: &str) -> Option<&'static str> {
    const SIGNS: &[(&str, &str)] = &[
        ("No bootable device", "the firmware finds nothing to boot"),
        ("Kernel panic - not syncing", "the kernel panicked"),
        ("(initramfs) ", "the initramfs finds no root file system"),
        (
            "You are in emergency mode",
            "the system is in emergency mode",
        ),
    ];
    SIGNS
        .iter()
        .find(|(sign, _)| text.contains(sign))
        .map(|(_, meaning)| *meaning)
}

/// The prompt of `login`. The kernel may have its say behind it.
pub fn login_prompt(text: &str) -> Option<Found<()>> {
    after(text, " login: ")
}

/// The prompt for the password.
pub fn password_prompt(text: &str) -> Option<Found<()>> {
    after(text, "Password: ")
}

/// What follows the password.
pub fn welcome(text: &str) -> Option<Found<Welcome>> {
    if let Some(found) = after(text, "Login incorrect") {
        return Some(found.map(|()| Welcome::Refused));
    }
    let shell = after(text, "# ").or_else(|| after(text, "$ "))?;
    Some(shell.map(|()| Welcome::Shell))
}

/// The line that makes of whatever shell there is a plain one, without prompt
/// and echo, and without the kernel's messages.
pub fn prepare() -> String {
    // Put together by the shell: the echo of this line is no answer.
    let (head, tail) = READY.split_at(5);
    format!(
        "exec sh -c \"stty -echo; dmesg -n 1 2>/dev/null; \
         echo {head}''{tail}; exec env PS1= PS2= sh\"\n"
    )
}

/// The plain shell is there.
pub fn prepared(text: &str) -> Option<Found<()>> {
    after(text, &format!("{READY}\n"))
}

/// The line that runs a command and tells how it ended.
pub fn run(number: usize, command: &str) -> String {
    format!("({command}) </dev/null 2>&1; echo \"{MARK} {number}: exit $? {MARK}\"\n")
}

/// The line of the transcript before a command.
pub fn title(number: usize, command: &str) -> String {
    format!("{MARK} {number}: {command}\n")
}

/// The exit status of command `number`, once it has ended.
pub fn ended(number: usize, text: &str) -> Option<Found<u8>> {
    let begin = format!("{MARK} {number}: exit ");
    let start = text.find(&begin)? + begin.len();
    let (status, _) = text[start..].split_once(&format!(" {MARK}\n"))?;
    let end = start + status.len() + MARK.len() + 2;
    Some(Found {
        meaning: status.parse().ok()?,
        end,
    })
}

/// The line that turns the machine off.
pub fn power_off() -> &'static str {
    "sync; poweroff\n"
}

fn after(text: &str, sign: &str) -> Option<Found<()>> {
    text.find(sign).map(|start| Found {
        meaning: (),
        end: start + sign.len(),
    })
}

impl<T> Found<T> {
    fn map<U>(self, meaning: impl FnOnce(T) -> U) -> Found<U> {
        Found {
            meaning: meaning(self.meaning),
            end: self.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_seen_behind_which_the_kernel_speaks() {
        let text = "\nhypercloud-demo login: [   61.2] random: crng init done\n";
        let found = login_prompt(text).unwrap();
        assert!(text[..found.end].ends_with("login: "));
        assert_eq!(login_prompt("Starting User Login Management...\n"), None);
        assert_eq!(login_prompt("hypercloud-demo logi"), None);
    }

    #[test]
    fn a_shell_and_a_refusal_are_told_apart() {
        let meaning = |text| welcome(text).map(|found| found.meaning);
        assert_eq!(meaning("\nLinux 6.1\n"), None);
        assert_eq!(meaning("\nroot@demo:~# "), Some(Welcome::Shell));
        let refused = "\nLogin incorrect\nhypercloud-demo login: ";
        assert_eq!(meaning(refused), Some(Welcome::Refused));
    }

    #[test]
    fn the_echo_of_a_line_is_not_its_answer() {
        assert_eq!(prepared(&prepare()), None);
        assert!(prepared("shell-is-ready\n").is_some());
        assert_eq!(ended(1, &run(1, "true")), None);
    }

    #[test]
    fn a_command_ends_with_its_own_mark() {
        let text = "one\n== 1: exit 0 ==\n";
        let found = ended(1, text).unwrap();
        assert_eq!((found.meaning, found.end), (0, text.len()));
        assert_eq!(ended(2, text), None);
        assert_eq!(ended(1, "one\n== 1: exit 12"), None);
        assert_eq!(ended(1, "== 1: exit 127 ==\n").unwrap().meaning, 127);
        // What a command writes without an end of line is no harm.
        assert_eq!(ended(1, "one== 1: exit 3 ==\n").unwrap().meaning, 3);
    }

    #[test]
    fn only_what_fits_a_line_is_said() {
        assert!(check("sync && ls /").is_ok());
        assert!(check(" ").is_err());
        assert!(check("one\ntwo").is_err());
        assert!(check(&"x".repeat(3001)).is_err());
        assert!(run(1, &"x".repeat(LONGEST)).len() < 4096);
    }

    #[test]
    fn what_does_not_boot_is_told_at_once() {
        let meaning = trouble("Booting from Hard Disk...\nNo bootable device.\n");
        assert_eq!(meaning, Some("the firmware finds nothing to boot"));
        assert_eq!(trouble("[    1.2] Run /init as init process\n"), None);
    }
}
