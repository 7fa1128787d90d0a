(() => {
  "use strict";
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  const main = document.querySelector("[data-live]");
  if (!main) return;
  const cells = document.getElementById("cells");
  const pause = 1000;
  const mostCells = 64;
  let revision = main.dataset.revision ?? 0;

  const near = (element) => element.scrollTop + element.clientHeight >= element.scrollHeight - 40;
  const end = () => document.documentElement.scrollHeight;

  // A button that is being pressed, or text that is being marked, must not vanish.
  const inUse = () => main.querySelector("button:active") || !getSelection().isCollapsed;

  function replace(old, part) {
    const before = [...old.querySelectorAll("pre")].map((pre) => [near(pre), pre.scrollTop]);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(part);
    part.querySelectorAll("pre").forEach((pre, at) => {
      const [atEnd, top] = before[at] ?? [true, 0];
      pre.scrollTop = atEnd && pre.matches(".out") ? pre.scrollHeight : top;
    });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  function show(part) {
    const old = document.getElementById(part.id);
    if (old) return replace(old, part);
    cells?.append(part);
    while (cells?.children.length > mostCells) cells.firstElementChild.remove();
  }

  function tell(text) {
    document.querySelector(".banner")?.remove();
    if (!text) return;
    const banner = document.createElement("p");
    banner.className = "banner";
    banner.role = "status";
    banner.textContent = text;
    main.prepend(banner);
  }

  async function look() {
    const answer = await fetch(`${main.dataset.live}?after=${revision}`, { redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.reload();
    if (answer.status === 404) {
      document.body.classList.add("over");
      return tell("This session has ended. This is the last that was seen of it.");
    }
    if (!answer.ok) throw answer.status;
    const parts = new DOMParser().parseFromString(await answer.text(), "text/html").body;
    const follow = near(document.documentElement);
    for (const part of [...parts.children]) show(document.adoptNode(part));
    revision = document.getElementById("status")?.dataset.revision ?? 0;
    if (follow && cells) scrollTo(0, end());
    tell("");
    return true;
  }

  async function watch() {
    let go = true;
    if (!document.hidden && !inUse()) {
      try {
        go = await look();
      } catch {
        tell("The server does not answer. Trying again…");
      }
    }
    if (go) setTimeout(watch, pause);
  }

  document.querySelectorAll(".cell.running pre.out").forEach((pre) => { pre.scrollTop = pre.scrollHeight; });
  if (cells) scrollTo(0, end());
  setTimeout(watch, pause);
})();
