package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const temporarySuffix = ".tmp"

var errNotFound = errors.New("not found")

// volume is what is remembered of a volume, in <root>/volumes/<id>.json.
type volume struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Bytes     int64  `json:"bytes"`
	BlockSize uint32 `json:"blockSize"`
	// Source is "volume/<id>", "snapshot/<id>" or empty.
	Source string `json:"source,omitempty"`
}

// snapshot is what is remembered of a snapshot, in <root>/snapshots/<id>.json.
type snapshot struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	VolumeID  string    `json:"volumeID"`
	Bytes     int64     `json:"bytes"`
	BlockSize uint32    `json:"blockSize"`
	Created   time.Time `json:"created"`
}

// store keeps volumes and snapshots in a directory tree and nothing in memory:
//
//	<root>/volumes/<id>.json          what is known of a volume
//	<root>/nodes/<node>/<id>.img      its bytes
//	<root>/snapshots/<id>.{json,img}  a snapshot
//
// A record is written after its bytes and removed after them, so a crash
// leaves either bytes that the next attempt overwrites, or a record that the
// next attempt removes.
type store struct{ root string }

func openStore(root string) (*store, error) {
	for _, directory := range []string{"volumes", "snapshots", "nodes"} {
		if err := os.MkdirAll(filepath.Join(root, directory), 0o700); err != nil {
			return nil, err
		}
	}
	return &store{root: root}, nil
}

// sweep removes half-written files; only for the one process that creates
// volumes, and only before it serves.
func (s *store) sweep() error {
	return filepath.WalkDir(s.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, temporarySuffix) {
			err = os.Remove(path)
		}
		return err
	})
}

var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// idOf derives the id from the name given by the caller, so that a repeated
// call finds what the first one made without an index.
func idOf(name string) string {
	if safeName.MatchString(name) {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(digest[:])
}

// recordPath refuses ids that are no plain file name; such an id was never
// given out, so it names nothing.
func (s *store) recordPath(kind, id string) (string, error) {
	if !safeName.MatchString(id) {
		return "", errNotFound
	}
	return filepath.Join(s.root, kind, id+".json"), nil
}

func (s *store) volumeFile(v *volume) string {
	return filepath.Join(s.root, "nodes", v.Node, v.ID+".img")
}

func (s *store) snapshotFile(id string) string {
	return filepath.Join(s.root, "snapshots", id+".img")
}

func (s *store) volume(id string) (*volume, error) {
	found := new(volume)
	return found, s.read("volumes", id, found)
}

func (s *store) snapshot(id string) (*snapshot, error) {
	found := new(snapshot)
	return found, s.read("snapshots", id, found)
}

func (s *store) putVolume(v *volume) error      { return s.write("volumes", v.ID, v) }
func (s *store) putSnapshot(sn *snapshot) error { return s.write("snapshots", sn.ID, sn) }
func (s *store) removeVolume(v *volume) error   { return s.remove("volumes", v.ID, s.volumeFile(v)) }
func (s *store) removeSnapshot(id string) error { return s.remove("snapshots", id, s.snapshotFile(id)) }
func (s *store) prepareNode(node string) error {
	return os.MkdirAll(filepath.Join(s.root, "nodes", node), 0o700)
}

func (s *store) read(kind, id string, into any) error {
	path, err := s.recordPath(kind, id)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (s *store) write(kind, id string, record any) error {
	path, err := s.recordPath(kind, id)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, func(file *os.File) error {
		_, err := file.Write(append(text, '\n'))
		return err
	})
}

func (s *store) remove(kind, id, bytes string) error {
	path, err := s.recordPath(kind, id)
	if err != nil {
		return err
	}
	for _, file := range []string{bytes, path} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
