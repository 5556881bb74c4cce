// Requests to the service, with the token of this tab.

const KEY = "pqrlearn.token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

export async function ask(path, body) {
  const headers = {};
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const options = { method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store" };
  const found = await fetch(path, { ...options, signal: AbortSignal.timeout(30000) });
  if (found.ok) return found.json();
  let why = found.statusText;
  try {
    why = (await found.json()).error;
  } catch {
    // A proxy has answered, and not in JSON.
  }
  throw new Refused(found.status, why);
}
