// CoreDNS for the test cluster, with no more plugins than its services need.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// In the order in which they see a question: template, which denies all
	// other names, comes last.
	dnsserver.Directives = []string{"errors", "ready", "cache", "loadbalance", "kubernetes", "template"}
	coremain.Run()
}
