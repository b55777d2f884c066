// Small aids that every page has; all pages work without them.
"use strict";

// A form that cannot be undone asks first.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button && button.classList.contains("danger") && !window.confirm(button.textContent.trim() + "?")) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}, true);

// When the crawl cannot be asked, the last numbers stay and the page says so, unless it is the page
// that already says so and asks again.
document.addEventListener("htmx:responseError", (event) => {
  if (!event.target.hasAttribute("data-again")) say("The crawl does not answer; these are its last numbers.");
});
document.addEventListener("htmx:sendError", () => say("This server does not answer; these are the last numbers."));
document.addEventListener("htmx:afterOnLoad", () => say(""));

function say(text) {
  let place = document.getElementById("trouble");
  if (!place) {
    if (!text) return;
    place = document.createElement("p");
    place.id = "trouble";
    place.className = "warning";
    place.setAttribute("role", "status");
    document.getElementById("main").prepend(place);
  }
  place.hidden = !text;
  if (place.textContent !== text) place.textContent = text;
}
