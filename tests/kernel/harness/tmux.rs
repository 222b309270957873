//! A real terminal: a tmux server of our own with one pane, typed into and looked at.

use std::process::{Command, Stdio};

use super::sandbox::{text, wait_until};

/// One pane. The server ends with it.
pub struct Terminal {
    socket: String,
}

impl Terminal {
    /// A pane that runs `command`; an interactive shell where it is empty.
    pub fn open(name: &str, command: &str) -> Self {
        let terminal = Self { socket: format!("assay-{name}-{}", std::process::id()) };
        let command = if command.is_empty() { "bash --norc --noprofile -i" } else { command };
        let status = terminal
            .tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", command])
            .env_remove("TMUX")
            .env("PS1", "ready$ ")
            .env("TERM", "screen")
            .stdin(Stdio::null())
            .status();
        assert!(status.expect("tmux runs").success());
        terminal
    }

    /// Types text.
    pub fn write(&self, text: &str) {
        self.succeed(&["send-keys", "-l", text]);
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.write(line);
        self.press("Enter");
    }

    /// Presses a key by its tmux name.
    pub fn press(&self, key: &str) {
        self.succeed(&["send-keys", key]);
    }

    /// Presses a key again and again until the screen is as `is_so` says: a key that comes before the shell has given the
    /// terminal away is lost.
    pub fn press_until(&self, key: &str, what: &str, is_so: impl Fn(&str) -> bool) {
        let looks = std::cell::Cell::new(0u32);
        self.wait_for(what, |screen| {
            if is_so(screen) {
                return true;
            }
            if looks.replace(looks.get() + 1).is_multiple_of(20) {
                self.press(key);
            }
            false
        });
    }

    /// Gives the pane another size.
    pub fn resize(&self, columns: u32, rows: u32) {
        self.succeed(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        text(&self.tmux(&["capture-pane", "-p"]).output().expect("tmux").stdout)
    }

    /// Waits until the screen is as `is_so` says.
    pub fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let is_there = || is_so(&self.screen());
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(what, is_there)));
        assert!(waited.is_ok(), "{what}; on the screen is\n{}", self.screen());
    }

    /// Waits until a line of the screen is this.
    pub fn wait_for_line(&self, line: &str) {
        self.wait_for(line, |screen| screen.lines().any(|shown| shown.trim_end() == line));
    }

    fn succeed(&self, args: &[&str]) {
        let output = self.tmux(args).output().expect("tmux");
        assert!(output.status.success(), "tmux {args:?}: {}", text(&output.stderr));
    }

    fn tmux(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(args);
        command
    }

    /// Closes the terminal, as when its window is closed.
    pub fn close(&self) {
        self.tmux(&["kill-server"]).stderr(Stdio::null()).status().expect("tmux");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.close();
    }
}
