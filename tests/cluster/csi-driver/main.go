// The CSI driver of the test cluster: a volume is a sparse file behind a loop
// device, on the node the scheduler chose. One controller serves all nodes (the
// files are on one machine); one node service runs in each node's namespaces.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

const (
	driverName    = "loopfile.csi.hypercloud.dev"
	driverVersion = "1.0.0"
	topologyKey   = "topology." + driverName + "/node"
)

func main() {
	var options options
	flag.StringVar(&options.socket, "socket", "", "path of the CSI socket to serve")
	flag.StringVar(&options.root, "root", "", "directory of the volumes, the same one for every node")
	flag.StringVar(&options.node, "node", "", "name of the node to serve as; none: no node service")
	flag.BoolVar(&options.controller, "controller", false, "serve the controller")
	flag.StringVar(&options.registration, "registration", "", "kubelet's plugins_registry directory to register in")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, options); err != nil {
		slog.Error("driver failed", "error", err)
		os.Exit(1)
	}
}

// options says what one process serves.
type options struct {
	socket, root, node, registration string
	controller                       bool
}

func (o options) check() error {
	switch {
	case o.socket == "" || o.root == "":
		return fmt.Errorf("-socket and -root are required")
	case o.node == "" && !o.controller:
		return fmt.Errorf("nothing to serve: give -controller or -node")
	case o.registration != "" && o.node == "":
		return fmt.Errorf("-registration needs -node")
	}
	return nil
}
