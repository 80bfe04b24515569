package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A loop device is found again by the inode behind it, never by a path kept
// in memory or in a file: the driver may restart, and a path looks different
// from another mount namespace.

// findLoop returns the path of the loop device bound to the file, or "".
func findLoop(file string) (string, error) {
	var want unix.Stat_t
	if err := unix.Stat(file, &want); err != nil {
		return "", fmt.Errorf("stat %s: %w", file, err)
	}
	bound, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return "", err
	}
	for _, entry := range bound {
		device := "/dev/" + filepath.Base(filepath.Dir(entry))
		status, err := loopStatus(device)
		if err != nil {
			// Unbound between the listing and the question.
			continue
		}
		if status.Inode == want.Ino && status.Device == want.Dev {
			return device, nil
		}
	}
	return "", nil
}

func loopStatus(device string) (*unix.LoopInfo64, error) {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return unix.IoctlLoopGetStatus64(fd)
}

// attachLoop binds the file to a free loop device, or returns the one that is
// bound already. I/O bypasses the page cache of the backing file where the
// file system allows it, so that data is not cached twice.
func attachLoop(file string, blockSize uint32) (string, error) {
	if device, err := findLoop(file); err != nil || device != "" {
		return device, err
	}
	backing, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(backing)
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open /dev/loop-control: %w", err)
	}
	defer unix.Close(control)

	// Another process may take the free device first; then ask for the next.
	for range 64 {
		number, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("find a free loop device: %w", err)
		}
		device := "/dev/loop" + strconv.Itoa(number)
		err = configureLoop(device, backing, file, blockSize)
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("bind %s to %s: %w", device, file, err)
		}
		return device, nil
	}
	return "", fmt.Errorf("bind a loop device to %s: every free one was taken by others", file)
}

func configureLoop(device string, backing int, file string, blockSize uint32) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	config := unix.LoopConfig{Fd: uint32(backing), Size: blockSize}
	config.Info.Flags = unix.LO_FLAGS_DIRECT_IO
	copy(config.Info.File_name[:len(config.Info.File_name)-1], file)
	err = unix.IoctlLoopConfigure(fd, &config)
	if errors.Is(err, unix.EINVAL) {
		// Direct I/O refused by this file system.
		config.Info.Flags = 0
		err = unix.IoctlLoopConfigure(fd, &config)
	}
	return err
}

// detachLoop unbinds the device bound to the file; none bound is no error.
func detachLoop(file string) error {
	device, err := findLoop(file)
	if err != nil || device == "" {
		return err
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("unbind %s from %s: %w", device, file, err)
	}
	return nil
}

// refreshLoopSize makes the device as large as its file has become.
func refreshLoopSize(device string) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("refresh the size of %s: %w", device, err)
	}
	return nil
}

// flushLoop writes what the page cache of the device holds to its file.
func flushLoop(device string) error {
	handle, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer handle.Close()
	if err := handle.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", device, err)
	}
	return nil
}

// deviceBytes is the size of a loop device, read from sysfs (512-byte units
// whatever the logical block size).
func deviceBytes(device string) (int64, error) {
	text, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/size")
	if err != nil {
		return 0, err
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", device, err)
	}
	return sectors * 512, nil
}
