//! What is shown of work: a bar on a terminal, else a line for each change; a
//! JSON object a line for programs.
//!
//! Results go to standard output. For people, progress and errors go to
//! standard error; for programs everything is on standard output, in order.

use std::io::IsTerminal;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::course::Step;
use super::failure::Failure;
use super::follow::Followed;
use crate::arguments::Format;
use crate::report::print;

/// Percent between two lines that only tell of progress.
const STRIDE: u8 = 10;

/// What a kind of work counts beside the share that is done.
pub(crate) trait Figures: Clone + Default + PartialEq + Serialize {
    /// The figures for people, behind the size of the disk.
    fn shown(&self) -> String;
}

/// What a kind of work ends with.
pub(crate) trait Outcome: Serialize {
    /// The same for people.
    fn shown(&self) -> String;
}

/// Who is told how work goes.
pub(crate) trait Audience<K: Followed> {
    /// It was made.
    fn created(&mut self, namespace: Option<&str>, name: &str);
    /// It is under way.
    fn step(&mut self, step: &Step<K::Figures>);
    /// It is done.
    fn done(&mut self, done: &K::Done);
}

/// Whether somebody watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    /// Standard error is a terminal.
    Terminal,
    /// It is a file or a pipe.
    Lines,
}

impl Screen {
    /// This process's.
    pub(crate) fn of_process() -> Self {
        if std::io::stderr().is_terminal() {
            Self::Terminal
        } else {
            Self::Lines
        }
    }
}

/// One line for programs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
enum Event<'a, S, D> {
    Created {
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        name: &'a str,
    },
    Progress(&'a S),
    Done(&'a D),
    Failed {
        reason: &'a str,
        message: String,
    },
}

/// What is told of a kind of work.
type EventOf<'a, K> = Event<'a, Step<<K as Followed>::Figures>, <K as Followed>::Done>;

/// Shows the course of work.
pub(crate) struct Reporter<K: Followed> {
    format: Format,
    screen: Screen,
    bar: ProgressBar,
    last: Option<Step<K::Figures>>,
}

impl<K: Followed> Reporter<K> {
    pub(crate) fn new(format: Format, screen: Screen) -> Self {
        let bar = match (format, screen) {
            (Format::Text, Screen::Terminal) => {
                ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr())
            }
            _ => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{msg:12} [{bar:30}] {percent:>3}%{prefix}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            format,
            screen,
            bar,
            last: None,
        }
    }

    fn tell(&self, event: &EventOf<'_, K>) {
        if self.format == Format::Json
            && let Ok(line) = serde_json::to_string(event)
        {
            print(&line);
        }
    }

    fn line(&self, line: &str) {
        match self.screen {
            Screen::Terminal => self.bar.println(line),
            Screen::Lines => eprintln!("{line}"),
        }
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        self.bar.finish_and_clear();
        match self.format {
            Format::Json => self.tell(&Event::Failed {
                reason: failure.reason(),
                message: failure.to_string(),
            }),
            Format::Text => eprintln!("error: {failure} ({})", failure.reason()),
        }
    }
}

impl<K: Followed> Audience<K> for Reporter<K> {
    fn created(&mut self, namespace: Option<&str>, name: &str) {
        self.tell(&Event::Created { namespace, name });
        if self.format == Format::Text {
            let word = K::WORK.word;
            match namespace {
                Some(namespace) => {
                    print(&format!("{word} {name} created in namespace {namespace}"));
                }
                None => print(&format!("{word} {name} created")),
            }
        }
    }

    fn step(&mut self, step: &Step<K::Figures>) {
        if self.last.as_ref() == Some(step) {
            return;
        }
        self.tell(&Event::Progress(step));
        if self.format == Format::Text {
            if let Some(line) = line_for(self.last.as_ref(), step, self.screen) {
                self.line(&line);
            }
            self.bar.set_message(step.phase);
            self.bar.set_position(step.percent.unwrap_or(0).into());
            self.bar.set_prefix(match step.bytes_total {
                Some(total) => format!(" of {}, {}", HumanBytes(total), step.figures.shown()),
                None => String::new(),
            });
        }
        self.last = Some(step.clone());
    }

    fn done(&mut self, done: &K::Done) {
        self.bar.finish_and_clear();
        self.tell(&Event::Done(done));
        if self.format == Format::Text {
            print(&done.shown());
        }
    }
}

/// The line that a step is worth, if any: what is said and was not said
/// before, and, where no bar shows it, how far it is.
fn line_for<F>(last: Option<&Step<F>>, step: &Step<F>, screen: Screen) -> Option<String> {
    let said = |step: &Step<F>| (step.phase, step.said.clone());
    let stride = |step: &Step<F>| step.percent.map(|percent| percent / STRIDE);
    let is_news = last.map(said) != Some(said(step));
    let is_further = screen == Screen::Lines && last.and_then(stride) != stride(step);
    // A bar shows the phase by itself.
    let is_worth_it = match screen {
        Screen::Terminal => is_news && !step.said.message.is_empty(),
        Screen::Lines => is_news || is_further,
    };
    if !is_worth_it {
        return None;
    }
    let mut line = step.phase.to_owned();
    if let Some(percent) = step.percent {
        line += &format!(" {percent}%");
    }
    if !step.said.message.is_empty() {
        line += &format!(": {} ({})", step.said.message, step.said.reason);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::super::course::Said;
    use super::*;

    fn step(phase: &'static str, message: &str, percent: Option<u8>) -> Step<()> {
        Step {
            phase,
            said: Said {
                reason: "Why".into(),
                message: message.into(),
            },
            percent,
            ..Step::default()
        }
    }

    #[test]
    fn a_line_is_written_for_what_is_new() {
        let waiting = step("Pending", "pod vm uses it", None);
        let begun = step("RollingBack", "", Some(0));
        let little = step("RollingBack", "", Some(9));
        let further = step("RollingBack", "", Some(10));
        let table = [
            (None, &waiting, Some("Pending: pod vm uses it (Why)")),
            (Some(&waiting), &waiting, None),
            (Some(&waiting), &begun, Some("RollingBack 0%")),
            (Some(&begun), &little, None),
            (Some(&little), &further, Some("RollingBack 10%")),
        ];
        for (last, now, line) in table {
            assert_eq!(line_for(last, now, Screen::Lines).as_deref(), line);
        }
        // The bar shows the rest.
        let of_terminal = |last, now| line_for(last, now, Screen::Terminal);
        assert!(of_terminal(None, &waiting).is_some());
        assert_eq!(of_terminal(Some(&waiting), &begun), None);
        assert_eq!(of_terminal(Some(&little), &further), None);
    }
}
