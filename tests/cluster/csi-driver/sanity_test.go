package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// accessVariable names the access type in the processes TestSanity starts.
const accessVariable = "LOOPFILE_SANITY_ACCESS"

// The driver is held to the conformance suite of the CSI project, with real
// loop devices and mounts. The suite runs once per process, hence the
// processes.
func TestSanity(t *testing.T) {
	needRoot(t)
	if access := os.Getenv(accessVariable); access != "" {
		sanityOf(t, access)
		return
	}
	for _, access := range []string{"mount", "block"} {
		t.Run(access, func(t *testing.T) {
			again := exec.Command(os.Args[0], "-test.run=^TestSanity$")
			again.Env = append(os.Environ(), accessVariable+"="+access)
			output, err := again.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

func sanityOf(t *testing.T, access string) {
	// Socket paths are short by decree of the kernel; t.TempDir's are not.
	directory, err := os.MkdirTemp("", "loopfile")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	socket := filepath.Join(directory, "csi.sock")
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- run(ctx, options{
			socket: socket, root: filepath.Join(directory, "root"), node: "node-a", controller: true,
		})
	}()
	waitForSocket(t, socket)

	config := sanity.NewTestConfig()
	config.Address = "unix:" + socket
	config.TargetPath = filepath.Join(directory, "target")
	config.StagingPath = filepath.Join(directory, "staging")
	config.TestVolumeAccessType = access
	config.TestVolumeSize = 1 << 30
	config.TestVolumeExpandSize = 2 << 30
	sanity.Test(t, config)

	stop()
	if err := <-served; err != nil {
		t.Errorf("driver ended with %v", err)
	}
	expectNothingLeft(t, filepath.Join(directory, "root"))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("loop devices and mounts need root")
	}
}

func waitForSocket(t *testing.T, socket string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if _, err := os.Stat(socket); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no socket %s", socket)
}

// expectNothingLeft fails for any volume, snapshot or half-written file.
func expectNothingLeft(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("left over: %s", path)
			if device, _ := findLoop(path); device != "" {
				t.Errorf("%s is still bound to %s", path, device)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
