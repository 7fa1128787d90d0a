//! `bridge relay` is a process of the same user as the code, which can kill it and write in its name.

use cellblock::Execution;

use crate::attack::{Attack, Expect};

/// The cell goes on over the next connection, and ends there.
const KILLED_ONCE: &str = "\
def answer(channel, message):
    plain(channel, message)
    k.end()
k.listen()
plain, k.answer = k.answer, answer
os.kill(k.relay(), 9)";

const KILLED_ON_AND_ON: &str = "\
k.listen()
while True:
    with contextlib.suppress(OSError, LookupError): os.kill(k.relay(), 9)";

fn went_on(execution: &Execution) -> bool {
    execution.is_ok() && execution.stdout.text.starts_with("after\n")
}

pub(crate) fn attacks() -> Vec<Attack> {
    let gone = |name: &str, lines: &str| Attack::new(format!("the relay {name}"), lines, Expect::Gone).on_relay();
    let mut attacks = vec![
        gone("is killed as often as it is there", KILLED_ON_AND_ON),
        gone("is stopped", "os.kill(k.relay(), signal.SIGSTOP)").brief(),
        gone("sends an unknown kind of frame", "k.forge(link(0, 9))"),
        gone("opens a stream", "for n in range(1, 256): k.forge(link(n, 1, b'shell'))"),
        gone("announces 4 GiB", "k.forge(link(0, 0, length=0xffffffff))"),
        gone("sends past its credit", "for n in range(1, 5): k.forge(link(n, 0, bytes(1 << 20)), times=3)").heavy(),
        gone("gives absurd credit", "for n in range(1, 5): k.forge(link(n, 3, b'\\xff' * 4), times=9)"),
        gone("gives credit of three bytes", "for n in range(1, 5): k.forge(link(n, 3, b'abc'))"),
        gone("floods the control connection", "k.forge(link(0, 0, b'{\"type\":\"x\"}') * 100, times=2000)").heavy(),
        gone(
            "floods the control connection with events",
            "k.forge(link(0, 0, b'{\"type\":\"stopped\"}') * 100, times=2000)",
        )
        .heavy(),
    ];
    let unharmed = |name: &str, payload: &str| {
        let lines = format!("k.forge(link(0, 0, {payload}))\nk.end()");
        Attack::new(format!("the relay {name}"), lines, Expect::Unharmed("after\n".into())).on_relay()
    };
    attacks.extend([
        unharmed("sends no JSON", "b'\\xff'"),
        unharmed("sends deep JSON", "b'[' * 500_000"),
        unharmed("answers what nobody asked", "b'{\"type\":\"reply\",\"id\":77,\"ok\":true}'"),
        unharmed("says that another kernel ended", "b'{\"type\":\"exit\",\"generation\":1000000,\"code\":0}'"),
        unharmed("says that the kernel was stopped", "b'{\"type\":\"stopped\",\"generation\":1,\"signal\":19}'"),
        unharmed("says nonsense of numbers", "b'{\"type\":\"exit\",\"generation\":-1,\"code\":1e99}'"),
    ]);
    attacks.extend([
        Attack::new("the relay is killed and another one finds the kernel", KILLED_ONCE, Expect::Ended(went_on))
            .on_relay(),
        Attack::new(
            "the relay is killed and the kernel greets nobody",
            "k.listen()\nheld = []\nk.welcome = held.append\nos.kill(k.relay(), 9)",
            Expect::TimedOut,
        )
        .brief()
        .on_relay(),
        Attack::new("the relay closes the channels", "for n in range(1, 255): k.forge(link(n, 2))", Expect::Closed)
            .on_relay(),
        Attack::new(
            "the relay says that this kernel ended",
            "k.forge(link(0, 0, json.dumps({'type': 'exit', 'generation': k.own()[1], 'signal': 9}).encode()))",
            // That is believed, and made true.
            Expect::Died,
        )
        .on_relay(),
    ]);
    attacks
}
