// What is live: pages that list things are read again every few seconds, and logs are followed. Without this script the
// pages are complete, but stand still.
"use strict";

const PERIOD = 5000;
const MAX_LINES = 5000;
const TYPING = 250;

function keepUpToDate(live, form) {
  const control = document.getElementById("live");
  const button = document.getElementById("pause");
  const state = control.querySelector("span");
  // A screen reader reads each change, also to the same words.
  const say = (text) => text !== state.textContent && (state.textContent = text);
  let paused = false;
  let latest = 0;
  let answered = 0;
  control.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
  });
  // Of several answers only the one that was asked for last is shown. Text that a reader has selected stays.
  const read = async (wanted) => {
    const mine = ++latest;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine === latest && answer.ok && (wanted || !keep())) replace(live, page);
      say(answer.ok ? "Updated every 5 seconds." : "The cluster does not answer; retrying.");
    } catch {
      say("The dashboard does not answer; retrying.");
    }
    answered = Math.max(answered, mine);
  };
  const keep = () => paused || document.hidden || String(getSelection());
  setInterval(() => answered === latest && !keep() && read(false), PERIOD);
  if (!form) return;
  let timer;
  const show = () => {
    clearTimeout(timer);
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", "/?" + new URLSearchParams(chosen));
    read(true);
  };
  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(show, event.target.type === "search" ? TYPING : 0);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
}

function replace(live, page) {
  const open = [...live.querySelectorAll("details[open]")].map((details) => details.id);
  const focused = live.contains(document.activeElement) ? address(document.activeElement) : null;
  live.replaceChildren(...page.querySelector("[data-live]").childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) [...live.querySelectorAll("a, summary")].find((one) => address(one) === focused)?.focus({ preventScroll: true });
  document.querySelector("footer time")?.replaceWith(page.querySelector("footer time"));
}

function address(element) {
  return element.getAttribute("href") ?? element.parentElement.id;
}

function follow(log) {
  const state = document.getElementById("log-state");
  const source = new EventSource(log.dataset.stream);
  // What a line shows that is not complete, such as a progress bar.
  let frame = null;
  const show = (node) => {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    if (state.textContent !== "Live.") state.textContent = "Live.";
    frame?.remove();
    log.append(node);
    while (log.childNodes.length > MAX_LINES) log.firstChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  source.addEventListener("open", () => {
    // The stream begins with the last lines, also after it was interrupted.
    log.textContent = "";
    state.textContent = "Live.";
  });
  source.addEventListener("message", (event) => {
    show(document.createTextNode(event.data + "\n"));
    frame = null;
  });
  source.addEventListener("frame", (event) => {
    const node = document.createTextNode(event.data);
    show(node);
    frame = node;
  });
  source.addEventListener("waiting", (event) => {
    state.textContent = event.data;
  });
  source.addEventListener("ended", (event) => {
    source.close();
    state.textContent = event.data;
  });
  source.addEventListener("error", () => {
    state.textContent = "The stream is interrupted; retrying.";
  });
}

const live = document.querySelector("[data-live]");
if (live) keepUpToDate(live, document.querySelector("[data-filter]"));
const log = document.querySelector("[data-stream]");
if (log) follow(log);
