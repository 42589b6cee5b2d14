//! The terminal: keys in, frames out. It is left as it was found, whatever happens.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::text::Text;
use ratatui::widgets::Paragraph;

use super::fetch::fetch;
use super::frame::{Size, frame};
use super::status::Status;
use super::view::{Key, Next, View};

/// What happens beside keys.
enum News {
    Answer(Box<Result<Status, String>>),
    /// A signal asks the process to end.
    Leave,
}

/// Shows the master until somebody quits.
///
/// # Errors
/// What the terminal says.
pub(super) fn run(mut view: View, interval: Duration) -> std::io::Result<()> {
    let (sender, news) = mpsc::sync_channel(1);
    hear_signals(sender.clone());
    let again = ask(view.address.clone(), interval, sender);
    // A panic restores the terminal before it says anything.
    let mut terminal = ratatui::try_init()?;
    let outcome = show(&mut terminal, &mut view, &news, &again);
    ratatui::try_restore()?;
    outcome
}

fn show(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    news: &Receiver<News>,
    again: &Sender<()>,
) -> std::io::Result<()> {
    loop {
        terminal.draw(|screen| {
            let area = screen.area();
            let (columns, lines) = (usize::from(area.width), usize::from(area.height));
            let lines = frame(view, Size { columns, lines: Some(lines) });
            screen.render_widget(Paragraph::new(Text::from(lines)), area);
        })?;
        loop {
            if event::poll(Duration::ZERO)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if let Some(key) = known(key)
                            && view.press(key) == Next::Quit
                        {
                            return Ok(());
                        }
                    }
                    // A resize and all else is answered with a new frame.
                    _ => {}
                }
                break;
            }
            match news.recv_timeout(GLANCE) {
                Ok(News::Answer(answer)) => {
                    view.take(*answer);
                    // The asker may be gone only if it has panicked; then keys still work.
                    let _ = again.send(());
                    break;
                }
                Ok(News::Leave) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Asks again and again, each time an interval after the answer before was taken.
fn ask(address: String, interval: Duration, sender: SyncSender<News>) -> Sender<()> {
    let (again, taken) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            if sender.send(News::Answer(Box::new(fetch(&address)))).is_err()
                || taken.recv().is_err()
            {
                return;
            }
            std::thread::sleep(interval);
        }
    });
    again
}

/// Turns the signals that end a process into news, so that the terminal is restored.
fn hear_signals(sender: SyncSender<News>) {
    use tokio::signal::unix::{SignalKind, signal};
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
            let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)] = kinds.map(signal) else {
                return;
            };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hang_up.recv() => {}
            }
            let _ = sender.send(News::Leave);
        });
    });
}

/// The keys that mean something.
fn known(key: KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        // In this mode the terminal makes no signal of it.
        return (key.code == KeyCode::Char('c')).then_some(Key::Letter('q'));
    }
    match key.code {
        KeyCode::Char(letter) => Some(Key::Letter(letter)),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Tab => Some(Key::Tab),
        KeyCode::BackTab => Some(Key::BackTab),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc | KeyCode::Backspace => Some(Key::Escape),
        _ => None,
    }
}

/// A key is answered within this time, which nobody notices.
const GLANCE: Duration = Duration::from_millis(30);
