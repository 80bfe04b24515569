package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// sparseFile makes a file with bytes at a few places and holes between them.
func sparseFile(t *testing.T, path string, size int64, places ...int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, place := range places {
		if _, err := file.WriteAt(bytes.Repeat([]byte{byte(place%251) + 1}, 4096), place); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var status unix.Stat_t
	if err := unix.Stat(path, &status); err != nil {
		t.Fatal(err)
	}
	return status.Blocks * 512
}

func TestCopyExtents(t *testing.T) {
	const size = 64 << 20
	for name, places := range map[string][]int64{
		"empty":         nil,
		"at the start":  {0},
		"at the end":    {size - 4096},
		"here or there": {0, 1 << 20, 33 << 20, size - 4096},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			source, target := filepath.Join(directory, "source"), filepath.Join(directory, "target")
			sparseFile(t, source, size, places...)
			from, err := os.Open(source)
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			// Not copyFile: that would share blocks where it can.
			if err := writeWhole(target, func(to *os.File) error { return copyExtents(to, from) }); err != nil {
				t.Fatal(err)
			}
			expectEqual(t, source, target)
			if got, most := allocated(t, target), allocated(t, source)+1<<20; got > most {
				t.Errorf("the copy takes %d bytes, its source %d", got, most)
			}
		})
	}
}

func TestCopyFileGrowsTheCopy(t *testing.T) {
	directory := t.TempDir()
	source, target := filepath.Join(directory, "source"), filepath.Join(directory, "target")
	sparseFile(t, source, 1<<20, 8192)
	if err := copyFile(source, target, 4<<20); err != nil {
		t.Fatal(err)
	}
	status, err := os.Stat(target)
	if err != nil || status.Size() != 4<<20 {
		t.Fatalf("size %v, %v", status, err)
	}
	if err := os.Truncate(target, 1<<20); err != nil {
		t.Fatal(err)
	}
	expectEqual(t, source, target)
}

func TestWriteWholeLeavesNothingHalf(t *testing.T) {
	directory := t.TempDir()
	refused := errors.New("refused")
	err := writeWhole(filepath.Join(directory, "file"), func(file *os.File) error {
		file.WriteString("half")
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatalf("got %v", err)
	}
	if entries, _ := os.ReadDir(directory); len(entries) != 0 {
		t.Fatalf("left: %v", entries)
	}
}

func expectEqual(t *testing.T, left, right string) {
	t.Helper()
	first, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("%s and %s differ", left, right)
	}
}
