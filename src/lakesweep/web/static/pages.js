// Small scripts over pages that work without them. Nothing here decides anything.
"use strict";

// A part of a page that is asked for again until it says that it is done.
function keepFresh(part) {
  const again = async () => {
    try {
      const answer = await fetch(part.dataset.refresh, { headers: { Accept: "text/html" } });
      if (answer.status === 401) {
        window.location.reload();
        return;
      }
      if (answer.ok) {
        const wasAtEnd = isAtEnd(part.querySelector("pre.log"));
        // Written by a template of ours, which has escaped everything in it.
        part.innerHTML = await answer.text();
        const log = part.querySelector("pre.log");
        if (log && wasAtEnd) log.scrollTop = log.scrollHeight;
      }
    } catch {
      // The server may be back in a moment.
    }
    if (!part.querySelector("[data-done]")) {
      window.setTimeout(again, 1500);
      return;
    }
    for (const form of document.querySelectorAll("[data-while-running]")) form.remove();
  };
  if (!part.querySelector("[data-done]")) window.setTimeout(again, 1000);
}

function isAtEnd(log) {
  return !log || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
}

for (const part of document.querySelectorAll("[data-refresh]")) keepFresh(part);

// Sliders whose figures are asked for as they move.
function followSliders(form) {
  const figures = document.getElementById("figures");
  let waiting = 0;
  form.addEventListener("input", (event) => {
    const days = event.target.value;
    form.querySelector(`output[for="${event.target.id}"]`).textContent = days + (days === "1" ? " day" : " days");
    window.clearTimeout(waiting);
    waiting = window.setTimeout(async () => {
      const query = new URLSearchParams(new FormData(form));
      const answer = await fetch(`${form.dataset.figures}?${query}`).catch(() => null);
      if (answer && answer.status === 401) window.location.reload();
      if (answer && answer.ok) figures.innerHTML = await answer.text();
    }, 120);
  });
}

for (const form of document.querySelectorAll("form[data-figures]")) followSliders(form);
