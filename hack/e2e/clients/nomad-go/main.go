// Uses the API through Nomad's own Go client: every part of access control, variables and their locks.
//
// Usage: nomad-go PORT. The server has access control and nothing is bootstrapped. The program exits
// with 1 at the first answer that differs from Nomad's. It contacts 127.0.0.1 alone.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/nomad/api"
)

const (
	// The secret of the first management token.
	manager = "11111111-2222-3333-4444-555555555555"
	readers = "namespace \"default\" {\n  policy = \"read\"\n}\n"
	writers = "namespace \"default\" {\n  policy = \"write\"\n}\n"
)

// server is a server's address.
type server string

// as is a client that shows this secret.
func (it server) as(secret string) *api.Client {
	config := api.Config{Address: string(it), SecretID: secret}
	client, err := api.NewClient(&config)
	ok(err)
	return client
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: nomad-go PORT")
		os.Exit(2)
	}
	it := server("http://127.0.0.1:" + os.Args[1])
	bootstrap(it)
	client := it.as(manager)
	policies(it, client)
	tokens(it, client)
	uploads(it, client)
	oneTimeTokens(it, client)
	roles(it, client)
	authMethods(client)
	bindingRules(client)
	logins(it, client)
	namespaces(it, client)
	variables(it, client)
	variableRights(it, client)
	locks(it, client)
	locksOfTheHelper(client)
}

// bootstrap makes the first management token.
func bootstrap(it server) {
	anyone := it.as("").ACLTokens()
	refused(400, "invalid acl token", last(anyone.BootstrapOpts("not-a-uuid", nil)))
	token := made(anyone.BootstrapOpts(manager, nil))
	same(token.SecretID, manager)
	same(token.Type, "management")
	holds(token.Global && token.AccessorID != "" && token.AccessorID != manager, token)
	refused(400, "ACL bootstrap already done", last(anyone.Bootstrap(nil)))
	refused(400, "ACL bootstrap already done", last(anyone.BootstrapOpts(manager, nil)))
}

// namespaces lists, writes and deletes them.
func namespaces(it server, client *api.Client) {
	all := client.Namespaces()
	// The client sorts its own list by index.
	names := func() []string {
		var list []api.Namespace
		meta, err := client.Raw().Query("/v1/namespaces", &list, nil)
		read(list, meta, err)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		return names
	}
	written(all.Register(&api.Namespace{Name: "prod", Description: "production"}, nil))
	dev := api.Namespace{
		Name:        "dev",
		Description: "developers",
		Capabilities: &api.NamespaceCapabilities{
			EnabledTaskDrivers:   []string{"exec"},
			DisabledTaskDrivers:  []string{"raw_exec"},
			EnabledNetworkModes:  []string{"bridge"},
			DisabledNetworkModes: []string{"host"},
		},
		NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{
			Default: "default",
			Denied:  []string{"gpu"},
		},
		Meta: map[string]string{"owner": "ops"},
	}
	written(all.Register(&dev, nil))
	same(names(), []string{"default", "dev", "prod"})
	holds(len(read(all.List(nil))) == 3, "namespaces")
	found := read(all.Info("dev", nil))
	holds(found.CreateIndex > 0 && found.ModifyIndex >= found.CreateIndex, found)
	same(found.Description, dev.Description)
	same(found.Capabilities, dev.Capabilities)
	same(found.NodePoolConfiguration.Default, "default")
	same(found.NodePoolConfiguration.Denied, []string{"gpu"})
	same(found.Meta, dev.Meta)
	prefixed := read(all.PrefixList("pr", nil))
	holds(len(prefixed) == 1 && prefixed[0].Name == "prod", prefixed)

	refused(404, "", last(all.Info("missing", nil)))
	bad := api.Namespace{Name: "*"}
	refused(400, `invalid name "*".`, second(all.Register(&bad, nil)))
	refused(400, "default", second(all.Delete("default", nil)))
	written(all.Delete("dev", nil))
	written(all.Delete("dev", nil))
	written(all.Delete("prod", nil))
	same(names(), []string{"default"})
	refused(403, "Permission denied", second(it.as("").Namespaces().Register(&dev, nil)))
}
