package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile makes target a copy of source, at least size bytes long. It shares
// the blocks where the file system can (one atomic step, so the copy of a file
// in use is one point in time), else it copies the allocated extents only.
// The target appears under its name when it is complete, never before.
func copyFile(source, target string, size int64) (err error) {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	return writeWhole(target, func(to *os.File) error {
		if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
			if err := copyExtents(to, from); err != nil {
				return fmt.Errorf("copy %s: %w", source, err)
			}
		}
		status, err := to.Stat()
		if err != nil {
			return err
		}
		if status.Size() < size {
			return to.Truncate(size)
		}
		return nil
	})
}

func copyExtents(to, from *os.File) error {
	status, err := from.Stat()
	if err != nil {
		return err
	}
	end := status.Size()
	if err := to.Truncate(end); err != nil {
		return err
	}
	for position := int64(0); position < end; {
		start, err := from.Seek(position, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		stop, err := from.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, stop-start); err != nil {
			return err
		}
		position = stop
	}
	return nil
}

// writeWhole creates path with what fill writes, atomically and durably.
func writeWhole(path string, fill func(*os.File) error) (err error) {
	temporary := path + temporarySuffix
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		file.Close()
		if err != nil {
			os.Remove(temporary)
		}
	}()
	if err := fill(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
