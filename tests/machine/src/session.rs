//! A machine from its start to its end: boot, login, commands, power off.

use std::io::Write;
use std::time::Duration;

use crate::console::Console;
use crate::dialogue::{self, Welcome};
use crate::failure::{Ending, Failure};
use crate::qemu::Machine;

/// Who logs in.
#[derive(Debug)]
pub struct Account<'a> {
    /// His name.
    pub user: &'a str,
    /// His password.
    pub password: &'a str,
}

/// How long each part may take.
#[derive(Debug)]
pub struct Limits {
    /// From the start to the login prompt.
    pub boot: Duration,
    /// Each answer to what is said.
    pub command: Duration,
    /// From the order to go off to the end.
    pub off: Duration,
}

/// A machine and the talk with it.
pub struct Session<T> {
    machine: Machine,
    console: Console<T>,
    limits: Limits,
    commands: usize,
}

impl<T: Write> Session<T> {
    /// Starts the machine of this command line; `transcript` gets everything
    /// it says.
    pub fn start(words: &[String], limits: Limits, transcript: T) -> Result<Self, Failure> {
        let (machine, output) = Machine::start(words)?;
        Ok(Self {
            machine,
            console: Console::new(output, transcript),
            limits,
            commands: 0,
        })
    }

    /// Waits for the login prompt.
    pub fn boot(&mut self) -> Result<(), Failure> {
        self.console
            .wait(self.limits.boot, dialogue::login_prompt)
            .map_err(Failure::Boot)
    }

    /// Logs in at the prompt; a plain shell listens afterwards.
    pub fn log_in(&mut self, account: &Account<'_>) -> Result<(), Failure> {
        let limit = self.limits.command;
        self.say(&format!("{}\n", account.user))
            .and_then(|()| self.console.wait(limit, dialogue::password_prompt))
            .and_then(|()| self.say(&format!("{}\n", account.password)))
            .map_err(Failure::Login)?;
        let welcome = self.console.wait(limit, dialogue::welcome);
        if welcome.map_err(Failure::Login)? == Welcome::Refused {
            return Err(Failure::Refused {
                user: account.user.to_owned(),
            });
        }
        self.say(&dialogue::prepare())
            .and_then(|()| self.console.wait(limit, dialogue::prepared))
            .map_err(Failure::Login)
    }

    /// Runs a command, which has to end with status 0.
    pub fn execute(&mut self, command: &str) -> Result<(), Failure> {
        self.commands += 1;
        let number = self.commands;
        let title = dialogue::title(number, command);
        let ended = |text: &str| dialogue::ended(number, text);
        let status = self
            .console
            .write(&title)
            .and_then(|()| self.say(&dialogue::run(number, command)))
            .and_then(|()| self.console.wait(self.limits.command, ended))
            .map_err(|source| Failure::Unanswered { number, source })?;
        if status != 0 {
            return Err(Failure::Command { number, status });
        }
        Ok(())
    }

    /// Has the machine turn itself off, and waits until it is.
    pub fn shut_down(mut self) -> Result<(), Failure> {
        self.say(dialogue::power_off())
            .and_then(|()| self.console.wait_for_end(self.limits.off))
            .map_err(Failure::ShutDown)?;
        self.machine.end()
    }

    fn say(&mut self, line: &str) -> Result<(), Ending> {
        self.machine
            .say(line)
            .map_err(|error| Ending::Deaf(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of a few lines of shell, which answers as a real one does.
    fn session(script: &str) -> Session<Vec<u8>> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let limits = Limits {
            boot: Duration::from_secs(30),
            command: Duration::from_secs(30),
            off: Duration::from_secs(30),
        };
        Session::start(&words, limits, Vec::new()).unwrap()
    }

    const ACCOUNT: Account<'_> = Account {
        user: "root",
        password: "secret",
    };
    const GREETING: &str = "printf 'Booting\\r\\n\\r\\ndemo login: '; read user
        printf 'Password: '; read password
        if [ \"$user:$password\" != root:secret ]; then
            printf '\\r\\nLogin incorrect\\r\\ndemo login: '; read -r again; fi
        printf '\\r\\nroot@demo:~# '; read -r prepare; echo shell-is-ready\n";

    #[test]
    fn commands_run_one_after_the_other() {
        let mut session = session(&format!("{GREETING}poweroff() {{ exit; }}\n. /dev/stdin"));
        session.boot().unwrap();
        session.log_in(&ACCOUNT).unwrap();
        session.execute("echo one").unwrap();
        let error = session.execute("echo two; false").unwrap_err();
        assert!(
            matches!(
                error,
                Failure::Command {
                    number: 2,
                    status: 1
                }
            ),
            "{error:?}"
        );
        session.shut_down().unwrap();
    }

    #[test]
    fn a_wrong_password_is_told_from_a_shell() {
        let mut session = session(GREETING);
        session.boot().unwrap();
        let account = Account {
            password: "wrong",
            ..ACCOUNT
        };
        let error = session.log_in(&account).unwrap_err();
        assert_eq!(error.exit_code(), 4, "{error:?}");
        assert!(matches!(error, Failure::Refused { .. }), "{error:?}");
    }

    #[test]
    fn a_machine_that_goes_off_has_not_booted() {
        let error = session("echo Booting").boot().unwrap_err();
        assert!(matches!(error, Failure::Boot(Ending::Off)), "{error:?}");
        assert_eq!(error.exit_code(), 3);
    }

    #[test]
    fn an_end_with_an_error_is_no_power_off() {
        let mut session = session(&format!("{GREETING}read -r off; exit 1"));
        session.boot().unwrap();
        session.log_in(&ACCOUNT).unwrap();
        let error = session.shut_down().unwrap_err();
        assert!(matches!(error, Failure::Qemu(_)), "{error:?}");
    }
}
