package main

import (
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"
)

// policies writes, lists, reads and deletes them.
func policies(it server, client *api.Client) {
	all := client.ACLPolicies()
	policy := api.ACLPolicy{Name: "readers", Description: "reads", Rules: readers}
	written(all.Upsert(&policy, nil))
	ofJob := api.ACLPolicy{
		Name:   "of-web",
		Rules:  writers,
		JobACL: &api.JobACL{Namespace: "default", JobID: "web", Group: "web", Task: "server"},
	}
	written(all.Upsert(&ofJob, nil))
	found := read(all.Info("readers", nil))
	holds(found.CreateIndex > 0 && found.ModifyIndex > 0, found)
	same([]string{found.Name, found.Description, found.Rules}, []string{"readers", "reads", readers})
	same(read(all.Info("of-web", nil)).JobACL, ofJob.JobACL)
	var names []string
	for _, one := range read(all.List(nil)) {
		names = append(names, one.Name)
		holds(one.CreateIndex > 0 && one.ModifyIndex > 0, one)
	}
	same(names, []string{"of-web", "readers"})

	bad := api.ACLPolicy{Name: "bad", Rules: "namespace \"default\" { policy = \"reads\" }"}
	refused(400, "reads", second(all.Upsert(&bad, nil)))
	refused(400, "", second(all.Upsert(&api.ACLPolicy{Name: "a b", Rules: readers}, nil)))
	refused(404, "", last(all.Info("missing", nil)))
	written(all.Delete("missing", nil))
	refused(403, "Permission denied", second(it.as("").ACLPolicies().Upsert(&policy, nil)))
	written(all.Delete("of-web", nil))
}

// tokens makes, lists, reads, changes and deletes them.
func tokens(it server, client *api.Client) {
	all := client.ACLTokens()
	token := made(all.Create(&api.ACLToken{
		Name:          "reader",
		Type:          "client",
		Policies:      []string{"readers"},
		ExpirationTTL: 30 * time.Minute,
	}, nil))
	holds(token.AccessorID != "" && token.SecretID != "" && token.CreateIndex > 0, token)
	same(token.ExpirationTTL, 30*time.Minute)
	same(token.ExpirationTime.Sub(token.CreateTime), 30*time.Minute)
	same(read(all.Info(token.AccessorID, nil)), token)

	var listed []*api.ACLTokenListStub
	for _, one := range read(all.List(nil)) {
		if one.AccessorID == token.AccessorID {
			listed = append(listed, one)
		}
	}
	holds(len(listed) == 1 && listed[0].Name == "reader", listed)
	same(listed[0].ExpirationTime, token.ExpirationTime)
	var raw []map[string]any
	_, err := client.Raw().Query("/v1/acl/tokens", &raw, nil)
	ok(err)
	for _, one := range raw {
		_, there := one["SecretID"]
		holds(!there, one)
	}

	reader := it.as(token.SecretID)
	same(read(reader.ACLTokens().Self(nil)), token)
	same(read(reader.ACLTokens().Info(token.AccessorID, nil)), token)
	holds(len(read(reader.Jobs().List(nil))) == 0, "jobs")
	refused(403, "Permission denied", last(reader.ACLTokens().List(nil)))
	refused(403, "Permission denied", last(reader.Nodes().List(nil)))
	own := read(reader.ACLPolicies().Self(nil))
	holds(len(own) == 1 && own[0].Name == "readers", own)
	holds(read(reader.ACLPolicies().Info("readers", nil)).Rules == readers, "rules")

	changed := *token
	changed.Name = "renamed"
	updated := made(all.Update(&changed, nil))
	same(updated.Name, "renamed")
	same(updated.SecretID, token.SecretID)
	holds(updated.ModifyIndex > token.ModifyIndex, updated)
	longer := *updated
	longer.ExpirationTTL = time.Hour
	refused(400, "cannot update expiration", last(all.Update(&longer, nil)))
	refused(400, "", last(all.Create(&api.ACLToken{Type: "client"}, nil)))
	refused(400, "", last(all.Create(&api.ACLToken{Type: "owner"}, nil)))
	unknown := api.ACLToken{Type: "client", Roles: []*api.ACLTokenRoleLink{{Name: "missing"}}}
	refused(400, "missing", last(all.Create(&unknown, nil)))

	written(all.Delete(token.AccessorID, nil))
	refused(404, "", last(all.Info(token.AccessorID, nil)))
	refused(403, "Permission denied", last(reader.Jobs().List(nil)))
}

// uploads brings tokens with ids and secrets of their own.
func uploads(it server, client *api.Client) {
	all := client.ACLTokens()
	const secret = "22222222-3333-4444-5555-666666666666"
	token := made(all.Upload(&api.ACLToken{
		AccessorID: "33333333-4444-5555-6666-777777777777",
		SecretID:   secret,
		Name:       "uploaded",
		Type:       "client",
		Policies:   []string{"readers"},
	}, nil))
	same(token.SecretID, secret)
	same(token.AccessorID, "33333333-4444-5555-6666-777777777777")
	same(read(all.Info(token.AccessorID, nil)), token)
	same(read(it.as(secret).ACLTokens().Self(nil)), token)
	written(all.Delete(token.AccessorID, nil))
}

// oneTimeTokens makes one and exchanges it once.
func oneTimeTokens(it server, client *api.Client) {
	own := read(client.ACLTokens().Self(nil))
	once := made(client.ACLTokens().UpsertOneTimeToken(nil))
	same(once.AccessorID, own.AccessorID)
	holds(once.OneTimeSecretID != "" && once.ExpiresAt.After(time.Now()), once)
	anyone := it.as("").ACLTokens()
	exchanged := made(anyone.ExchangeOneTimeToken(once.OneTimeSecretID, nil))
	same(exchanged, own)
	refused(403, "Permission denied", last(anyone.ExchangeOneTimeToken(once.OneTimeSecretID, nil)))
	refused(403, "Permission denied", last(anyone.ExchangeOneTimeToken("not-a-secret", nil)))
	refused(403, "Permission denied", last(anyone.UpsertOneTimeToken(nil)))
}

// roles are linked by name and by id, renamed and deleted.
func roles(it server, client *api.Client) {
	all := client.ACLRoles()
	links := []*api.ACLRolePolicyLink{{Name: "readers"}}
	role := made(all.Create(&api.ACLRole{Name: "dev", Description: "developers", Policies: links}, nil))
	holds(role.ID != "" && role.CreateIndex > 0, role)
	same(role.Policies, links)
	same(read(all.Get(role.ID, nil)), role)
	same(read(all.GetByName("dev", nil)), role)
	listed := read(all.List(nil))
	holds(len(listed) == 1 && listed[0].ID == role.ID && listed[0].Name == "dev", listed)
	same(listed[0].Policies, links)
	refused(400, "", last(all.Create(&api.ACLRole{Name: "dev", Policies: links}, nil)))
	missing := []*api.ACLRolePolicyLink{{Name: "missing"}}
	refused(400, "missing", last(all.Create(&api.ACLRole{Name: "ops", Policies: missing}, nil)))
	refused(400, "", last(all.Create(&api.ACLRole{Name: "ops"}, nil)))

	ops := made(all.Create(&api.ACLRole{Name: "ops", Policies: links}, nil))
	given := []*api.ACLTokenRoleLink{{Name: "dev"}, {Name: "ops"}, {ID: role.ID}}
	token := made(client.ACLTokens().Create(&api.ACLToken{Type: "client", Roles: given}, nil))
	expected := []*api.ACLTokenRoleLink{{ID: role.ID, Name: "dev"}, {ID: ops.ID, Name: "ops"}}
	byName := func(links []*api.ACLTokenRoleLink) []*api.ACLTokenRoleLink {
		slices.SortFunc(links, func(a, b *api.ACLTokenRoleLink) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		return links
	}
	same(byName(token.Roles), expected)
	holder := it.as(token.SecretID)
	holds(len(read(holder.Jobs().List(nil))) == 0, "jobs")
	ownRole := read(holder.ACLRoles().List(nil))
	holds(len(ownRole) == 2, ownRole)

	renamed := *role
	renamed.Name = "developers"
	updated := made(all.Update(&renamed, nil))
	same([]string{updated.ID, updated.Name}, []string{role.ID, "developers"})
	refused(404, "", last(all.GetByName("dev", nil)))
	same(read(all.GetByName("developers", nil)), updated)
	written(all.Delete(ops.ID, nil))
	token = read(client.ACLTokens().Info(token.AccessorID, nil))
	same(token.Roles, []*api.ACLTokenRoleLink{{ID: role.ID, Name: "developers"}})
	written(all.Delete(role.ID, nil))
	refused(404, "", last(all.Get(role.ID, nil)))
	refused(403, "Permission denied", last(holder.Jobs().List(nil)))
	written(client.ACLTokens().Delete(token.AccessorID, nil))
}
