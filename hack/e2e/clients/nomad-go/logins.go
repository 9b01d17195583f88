package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"time"

	"github.com/hashicorp/nomad/api"
)

// authMethods writes, lists, reads and deletes them.
func authMethods(client *api.Client) {
	all := client.ACLAuthMethods()
	method := api.ACLAuthMethod{
		Name:            "sso",
		Type:            "OIDC",
		TokenLocality:   "local",
		TokenNameFormat: "${auth_method_type}-${auth_method_name}-${value.user}",
		MaxTokenTTL:     90 * time.Minute,
		Default:         true,
		Config: &api.ACLAuthMethodConfig{
			OIDCDiscoveryURL:    "https://127.0.0.1:1",
			OIDCClientID:        "drover",
			OIDCClientSecret:    "planted secret of a method",
			OIDCScopes:          []string{"groups"},
			OIDCEnablePKCE:      true,
			BoundAudiences:      []string{"drover"},
			AllowedRedirectURIs: []string{"http://127.0.0.1:4649/oidc/callback"},
			SigningAlgs:         []string{"ES256"},
			ClaimMappings:       map[string]string{"name": "user"},
			ListClaimMappings:   map[string]string{"groups": "groups"},
		},
	}
	created := made(all.Create(&method, nil))
	found := read(all.Get("sso", nil))
	holds(found.CreateIndex > 0 && !found.CreateTime.IsZero(), found)
	same(created.Name, found.Name)
	same(found.MaxTokenTTL, 90*time.Minute)
	same(found.TokenNameFormat, method.TokenNameFormat)
	holds(found.Default && found.Type == "OIDC" && found.TokenLocality == "local", found)
	config := *found.Config
	same(config.OIDCClientSecret, "redacted")
	config.OIDCClientSecret = method.Config.OIDCClientSecret
	same(config.OIDCScopes, method.Config.OIDCScopes)
	same(config.AllowedRedirectURIs, method.Config.AllowedRedirectURIs)
	same(config.ClaimMappings, method.Config.ClaimMappings)
	same(config.ListClaimMappings, method.Config.ListClaimMappings)
	listed := read(all.List(nil))
	holds(len(listed) == 1 && listed[0].Name == "sso" && listed[0].Default, listed)

	// A method may be changed without its configuration, which stays.
	shorter := api.ACLAuthMethod{Name: "sso", MaxTokenTTL: time.Hour}
	made(all.Update(&shorter, nil))
	found = read(all.Get("sso", nil))
	same(found.MaxTokenTTL, time.Hour)
	same(found.Config.OIDCDiscoveryURL, method.Config.OIDCDiscoveryURL)
	bare := api.ACLAuthMethod{Name: "bare", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour}
	made(all.Create(&bare, nil))
	refused(400, "", last(all.Create(&api.ACLAuthMethod{Name: "bad", Type: "LDAP"}, nil)))
	refused(404, "", last(all.Get("missing", nil)))
	refused(404, "", second(all.Delete("missing", nil)))
	written(all.Delete("bare", nil))
	written(all.Delete("sso", nil))
	holds(len(read(all.List(nil))) == 0, "methods")
}

// bindingRules writes, lists, reads, changes and deletes them.
func bindingRules(client *api.Client) {
	method := api.ACLAuthMethod{Name: "ci", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour}
	made(client.ACLAuthMethods().Create(&method, nil))
	all := client.ACLBindingRules()
	rule := made(all.Create(&api.ACLBindingRule{
		Description: "teams",
		AuthMethod:  "ci",
		Selector:    "value.team == \"readers\"",
		BindType:    "role",
		BindName:    "${value.team}",
	}, nil))
	holds(rule.ID != "" && rule.CreateIndex > 0 && !rule.CreateTime.IsZero(), rule)
	same(
		[]string{rule.Description, rule.AuthMethod, rule.Selector, rule.BindType, rule.BindName},
		[]string{"teams", "ci", "value.team == \"readers\"", "role", "${value.team}"},
	)
	same(read(all.Get(rule.ID, nil)), rule)
	listed := read(all.List(nil))
	holds(len(listed) == 1 && listed[0].ID == rule.ID && listed[0].AuthMethod == "ci", listed)
	changed := *rule
	changed.BindName = "dev"
	updated := made(all.Update(&changed, nil))
	same([]string{updated.ID, updated.BindName, updated.Selector}, []string{rule.ID, "dev", rule.Selector})
	management := api.ACLBindingRule{AuthMethod: "ci", BindType: "management"}
	same(made(all.Create(&management, nil)).BindType, "management")
	for _, bad := range []api.ACLBindingRule{
		{AuthMethod: "missing", BindType: "role", BindName: "dev"},
		{AuthMethod: "ci", BindType: "group", BindName: "dev"},
		{AuthMethod: "ci", BindType: "role"},
		{AuthMethod: "ci", BindType: "role", BindName: "dev", Selector: "value.team =="},
	} {
		refused(400, "", last(all.Create(&bad, nil)))
	}
	refused(404, "", last(all.Get("44444444-5555-6666-7777-888888888888", nil)))
	for _, one := range read(all.List(nil)) {
		written(all.Delete(one.ID, nil))
	}
	refused(404, "", last(all.Get(rule.ID, nil)))
	written(client.ACLAuthMethods().Delete("ci", nil))
}

// signed is a token with these claims (RFC 7515, RS256).
func signed(key *rsa.PrivateKey, claims map[string]any) string {
	part := func(value any) string {
		text, err := json.Marshal(value)
		ok(err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	ok(err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// logins exchanges signed tokens for access tokens.
func logins(it server, client *api.Client) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	ok(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	ok(err)
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	made(client.ACLAuthMethods().Create(&api.ACLAuthMethod{
		Name:            "ci",
		Type:            "JWT",
		TokenLocality:   "global",
		TokenNameFormat: "ci-${value.user}",
		MaxTokenTTL:     20 * time.Minute,
		Config: &api.ACLAuthMethodConfig{
			JWTValidationPubKeys: []string{string(block)},
			BoundAudiences:       []string{"drover"},
			BoundIssuer:          []string{"https://ci.example.com"},
			SigningAlgs:          []string{"RS256"},
			ExpirationLeeway:     30 * time.Second,
			ClaimMappings:        map[string]string{"team": "team", "name": "user"},
			ListClaimMappings:    map[string]string{"groups": "groups"},
		},
	}, nil))
	made(client.ACLBindingRules().Create(&api.ACLBindingRule{
		AuthMethod: "ci",
		Selector:   "value.team == \"readers\" and \"dev\" in list.groups",
		BindType:   "policy",
		BindName:   "${value.team}",
	}, nil))
	claims := func(changes map[string]any) map[string]any {
		all := map[string]any{
			"iss":    "https://ci.example.com",
			"aud":    "drover",
			"exp":    time.Now().Add(10 * time.Minute).Unix(),
			"name":   "anna",
			"team":   "readers",
			"groups": []string{"dev", "ops"},
		}
		for name, value := range changes {
			all[name] = value
		}
		return all
	}
	auth := it.as("").ACLAuth()
	login := func(key *rsa.PrivateKey, changes map[string]any) (*api.ACLToken, *api.WriteMeta, error) {
		token := signed(key, claims(changes))
		return auth.Login(&api.ACLLoginRequest{AuthMethodName: "ci", LoginToken: token}, nil)
	}
	token := made(login(key, nil))
	same([]string{token.Name, token.Type}, []string{"ci-anna", "client"})
	same(token.Policies, []string{"readers"})
	same(token.ExpirationTime.Sub(token.CreateTime), 20*time.Minute)
	holds(token.Global, token)
	same(read(it.as(token.SecretID).ACLTokens().Self(nil)), token)
	holds(len(read(it.as(token.SecretID).Jobs().List(nil))) == 0, "jobs")

	refused(400, "no role or policy bindings matched", last(login(key, map[string]any{"team": "others"})))
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	ok(err)
	refused(401, "", last(login(other, nil)))
	refused(401, "", last(login(key, map[string]any{"aud": "vault"})))
	refused(401, "", last(login(key, map[string]any{"iss": "https://other.example.com"})))
	refused(401, "", last(login(key, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})))
	url := api.ACLOIDCAuthURLRequest{
		AuthMethodName: "ci",
		RedirectURI:    "http://127.0.0.1:4649/oidc/callback",
		ClientNonce:    "nonce",
	}
	refused(400, "", last(auth.GetAuthURL(&url, nil)))
	written(client.ACLTokens().Delete(token.AccessorID, nil))
	written(client.ACLAuthMethods().Delete("ci", nil))
}
