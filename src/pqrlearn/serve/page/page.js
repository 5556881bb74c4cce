// The page of a service: asks for its status as long as the tab is looked at.

import { Refused, ask, token } from "./api.js";
import { connect, refreshWeights } from "./model.js";
import { showStatus } from "./status.js";
import { byId, put } from "./text.js";

const PAUSE = 1000;
const WEIGHTS_EVERY = 15; // times the status was asked
let asked = 0;
let last = null;

async function look() {
  try {
    last = await ask("/v1/status");
    trouble(null);
    needToken(false);
    showStatus(last);
    if (asked++ % WEIGHTS_EVERY === 0) refreshWeights();
  } catch (error) {
    fail(error);
  }
}

function fail(error) {
  byId("state").className = "pill bad";
  if (error instanceof Refused && error.status === 401) {
    put("state", "token needed");
    trouble(token.get() ? "The service does not know this token." : null);
    needToken(true);
  } else if (error instanceof Refused) {
    put("state", "refused");
    trouble(error.message);
  } else if (error instanceof TypeError || error.name === "TimeoutError") {
    put("state", "no answer");
    trouble("The service does not answer. The figures below are old; this page goes on asking.");
  } else {
    console.error(error);
    put("state", "error");
    trouble(`This page has made an error: ${error.message}`);
  }
}

function trouble(message) {
  byId("trouble").hidden = message == null;
  put("trouble", message ?? "");
}

function needToken(needed) {
  byId("token").hidden = !needed;
  byId("forget").hidden = needed || !token.get();
}

async function forever() {
  for (;;) {
    const waits = byId("token").hidden === false; // asking without a token would get the same answer
    if (!document.hidden && !waits) await look();
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token-text").value.trim());
  byId("token-text").value = "";
  asked = 0;
  look();
});

byId("forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});

// Behind #token= in the address: browsers send it nowhere, and it does not stay there.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  token.set(given);
  history.replaceState(null, "", location.pathname);
}

addEventListener("resize", () => last && showStatus(last));
takeToken();
connect();
forever();
