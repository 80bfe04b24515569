// The first process of every pod's sandbox: it holds the namespaces and waits
// for the end of processes nobody else waits for.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for received := range signals {
		if received != unix.SIGCHLD {
			return
		}
		for {
			ended, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err != nil || ended <= 0 {
				break
			}
		}
	}
}
