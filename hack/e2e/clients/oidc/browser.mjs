// A user with a browser: follows redirects, keeps cookies, fills in the provider's forms.
//
// Usage: browser.mjs URL USER. Ends when the page behind /oidc/callback has answered; exits with 1
// where that is not reached.

const [start, user] = process.argv.slice(2);
const STEPS_MAX = 20;
const cookies = new Map();

let url = new URL(start);
let form;
for (let step = 0; step < STEPS_MAX; step += 1) {
  const jar = cookies.get(url.host) ?? new Map();
  cookies.set(url.host, jar);
  const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  const response = await fetch(url, {
    method: form ? "POST" : "GET",
    body: form,
    headers: cookie ? { cookie } : {},
    redirect: "manual",
  }).catch((error) => {
    console.error(`${url}: ${error.cause ?? error}`);
    process.exit(1);
  });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    if (value) jar.set(name, value);
    else jar.delete(name);
  }
  form = undefined;
  const text = await response.text();
  if (response.status >= 300 && response.status < 400) {
    url = new URL(response.headers.get("location"), url);
    continue;
  }
  if (!response.ok) {
    console.error(`${url}: status ${response.status}: ${text}`);
    process.exit(1);
  }
  if (url.pathname === "/oidc/callback") {
    process.exit(0);
  }
  const action = /<form[^>]* action="([^"]+)"/.exec(text);
  const prompt = /name="prompt" value="([^"]+)"/.exec(text);
  if (!action || !prompt) {
    console.error(`${url}: a page without the form of a login: ${text}`);
    process.exit(1);
  }
  url = new URL(action[1], url);
  form = new URLSearchParams({ prompt: prompt[1], login: user, password: "any" });
}
console.error(`the login takes more than ${STEPS_MAX} steps`);
process.exit(1);
