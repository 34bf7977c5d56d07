// What is live: pages that list things are read again every few seconds, and logs are followed. Without this script the
// pages are complete, but stand still.
"use strict";

const PERIOD = 5000;
const MAX_LINES = 5000;

function keepUpToDate(main) {
  const control = document.getElementById("live");
  const button = document.getElementById("pause");
  let paused = false;
  let busy = false;
  control.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
  });
  // A reader who has chosen or selected something is not interrupted.
  const inForm = () => document.activeElement && document.activeElement.closest("form");
  const keep = () => paused || document.hidden || inForm() || String(getSelection());
  setInterval(async () => {
    if (busy || keep()) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const text = await answer.text();
      if (answer.ok && !keep()) replace(main, new DOMParser().parseFromString(text, "text/html"));
    } catch {
      // The dashboard or the cluster is away for now; the page keeps what it has.
    }
    busy = false;
  }, PERIOD);
}

function replace(main, page) {
  const open = [...main.querySelectorAll("details[open]")].map((details) => details.id);
  const focused = document.activeElement && main.contains(document.activeElement) ? address(document.activeElement) : null;
  main.replaceChildren(...page.getElementById("main").childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) [...main.querySelectorAll("a, summary")].find((one) => address(one) === focused)?.focus({ preventScroll: true });
  document.querySelector("footer time")?.replaceWith(page.querySelector("footer time"));
}

function address(element) {
  return element.getAttribute("href") ?? element.parentElement.id;
}

function follow(log) {
  const state = document.getElementById("log-state");
  const source = new EventSource(log.dataset.stream);
  source.addEventListener("open", () => {
    // The stream begins with the last lines, also after it was interrupted.
    log.textContent = "";
    state.textContent = "Live.";
  });
  source.addEventListener("message", (event) => {
    state.textContent = "Live.";
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.append(event.data + "\n");
    while (log.childNodes.length > MAX_LINES) log.firstChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  source.addEventListener("waiting", (event) => {
    state.textContent = event.data;
  });
  source.addEventListener("ended", (event) => {
    source.close();
    state.textContent = event.data;
  });
  source.addEventListener("error", () => {
    state.textContent = "The stream is interrupted; trying again.";
  });
}

const main = document.querySelector("main[data-live]");
if (main) keepUpToDate(main);
const log = document.querySelector("[data-stream]");
if (log) follow(log);
