// Asks for the open page again and again, and takes what has changed: the header, and each section.
// Nothing is taken while something in it has the focus or is selected, and nothing is asked while nobody looks.
"use strict";

const EVERY_MS = 1500; // or later, where the server says that the page is dear
let tag = "";
let seen = new Map();

const parts = (page) => [page.querySelector("header"), ...page.querySelectorAll("main > section")].filter(Boolean);
const nameOf = (part) => part.getAttribute("aria-labelledby") || part.tagName;

function isUsed(part) {
  const selection = document.getSelection();
  const chosen = [...part.querySelectorAll("input")].some((each) => each.checked !== each.defaultChecked);
  return part.contains(document.activeElement) || chosen ||
    (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

function take(old, fresh) {
  const log = old.querySelector("#log-tail");
  const newLog = fresh.querySelector("#log-tail");
  if (log && newLog && old.querySelector("h2").textContent === fresh.querySelector("h2").textContent) {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    log.textContent = newLog.textContent;
    if (atEnd) log.scrollTop = log.scrollHeight;
    return true;
  }
  if (isUsed(old)) return false;
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  old.replaceWith(fresh);
  [...fresh.querySelectorAll("details")].forEach((each, place) => { each.open = Boolean(open[place]); });
  [...fresh.querySelectorAll(".scroll")].forEach((each, place) => {
    [each.scrollLeft, each.scrollTop] = scrolled[place] || [0, 0];
  });
  return true;
}

function show(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const before = new Map(parts(document).map((part) => [nameOf(part), part]));
  let last = null;
  for (const part of parts(page)) {
    const name = nameOf(part);
    const html = part.outerHTML;
    const old = before.get(name);
    before.delete(name);
    if (!old) {
      const main = document.querySelector("main");
      if (last && last.parentElement === main) last.after(part); else main.prepend(part);
      seen.set(name, html);
      last = part;
    } else {
      if (seen.get(name) !== html && take(old, part)) seen.set(name, html);
      last = document.contains(part) ? part : old;
    }
  }
  for (const old of before.values()) if (!isUsed(old)) old.remove();
  document.title = page.title;
}

async function ask() {
  let next = EVERY_MS;
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1", "If-None-Match": tag }, cache: "no-store" });
      next = Math.max(next, Number(answer.headers.get("X-Next-Ms")));
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") || "";
        show(await answer.text());
      }
      document.documentElement.classList.remove("is-away");
    } catch {
      document.documentElement.classList.add("is-away"); // the server has ended
    }
  }
  setTimeout(ask, next);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) tag = ""; });
for (const part of parts(document)) seen.set(nameOf(part), part.outerHTML);
const log = document.querySelector("#log-tail");
if (log) log.scrollTop = log.scrollHeight;
setTimeout(ask, EVERY_MS);
