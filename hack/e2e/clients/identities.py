"""Verifies tokens of a task as a relying party does: with the keys that discovery names."""

import json
import sys
import urllib.request

import jwt

port, issuer, job, alloc, own, short = sys.argv[1:]
base = "http://127.0.0.1:" + port

with urllib.request.urlopen(base + "/.well-known/openid-configuration") as answer:
    discovered = json.load(answer)
assert discovered["issuer"] == issuer, discovered
# The issuer is a name in front of the servers; here there is none.
keys = jwt.PyJWKClient(discovered["jwks_uri"].replace(issuer, base))


def verify(token, audience, algorithm):
    header = jwt.get_unverified_header(token)
    assert header["alg"] == algorithm, header
    key = keys.get_signing_key_from_jwt(token)
    claims = jwt.decode(token, key, algorithms=[algorithm], audience=audience, issuer=issuer)
    assert claims["nomad_job_id"] == job, claims
    assert claims["nomad_allocation_id"] == alloc, claims
    assert claims["nomad_namespace"] == "default" and claims["nomad_task"] == "task", claims
    try:
        jwt.decode(token, key, algorithms=[algorithm], audience="somebody.else", issuer=issuer)
    except jwt.InvalidAudienceError:
        return claims
    raise AssertionError("it is taken for another audience")


claims = verify(own, "nomadproject.io", "EdDSA")
assert "exp" not in claims, claims
assert claims["sub"] == "global:default:" + job + ":group:task:default", claims
claims = verify(short, "other.example", "RS256")
assert claims["exp"] - claims["iat"] == 20, claims
