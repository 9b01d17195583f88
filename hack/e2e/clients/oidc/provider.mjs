// An OpenID provider that is not ours: npm's oidc-provider, on loopback.
//
// Usage: provider.mjs MODULES REDIRECT_URI [CERTIFICATE KEY]. MODULES is the folder in which npm
// installed it. The issuer is printed once it answers: https with a certificate, else http. The
// program ends when its input does.

import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { pathToFileURL } from "node:url";

const [modules, redirectUri, certificate, key] = process.argv.slice(2);
const entry = `${modules}/node_modules/oidc-provider/lib/index.js`;
const { default: Provider } = await import(pathToFileURL(entry));

const server = certificate
  ? https.createServer({ cert: readFileSync(certificate), key: readFileSync(key) })
  : http.createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `${certificate ? "https" : "http"}://127.0.0.1:${server.address().port}`;

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const groups = { anna: ["readers", "staff"], otto: ["staff"] };
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "drover",
      client_secret: "planted secret, with : and %",
      application_type: "native",
      redirect_uris: [redirectUri],
      response_types: ["code"],
      grant_types: ["authorization_code"],
      id_token_signed_response_alg: "RS256",
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  // Without this, claims beside `sub` are in the user info alone, as by default.
  claims: { openid: ["sub"], profile: ["name"], groups: ["groups"] },
  scopes: ["openid", "profile", "groups"],
  cookies: { keys: ["a key of this test"] },
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", kid: "rsa-1" }] },
  pkce: { required: () => true },
  async findAccount(_, id) {
    return {
      accountId: id,
      claims: async () => ({ sub: id, name: id, groups: groups[id] ?? [] }),
    };
  },
});
server.on("request", provider.callback());
console.log(issuer);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
