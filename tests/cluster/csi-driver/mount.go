package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountEntry is a line of /proc/self/mountinfo.
type mountEntry struct {
	// device is "major:minor" of the file system, root the path within it.
	device, root, path string
}

func readMounts() ([]mountEntry, error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	// The kernel writes these characters as octal escapes.
	unescape := strings.NewReplacer(`\134`, `\`, `\040`, " ", `\011`, "\t", `\012`, "\n")
	var entries []mountEntry
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			entries = append(entries, mountEntry{fields[2], unescape.Replace(fields[3]), unescape.Replace(fields[4])})
		}
	}
	return entries, lines.Err()
}

// isMountPoint asks the kernel's table, which unlike a comparison of device
// numbers also sees bind mounts of files.
func isMountPoint(path string) (bool, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	entries, err := readMounts()
	return slices.ContainsFunc(entries, func(entry mountEntry) bool { return entry.path == resolved }), err
}

// isPublished tells whether the loop device, or the file system on it, is
// mounted anywhere but at the given path.
func isPublished(device, staging string) (bool, error) {
	number, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/dev")
	if err != nil {
		return false, err
	}
	entries, err := readMounts()
	return slices.ContainsFunc(entries, func(entry mountEntry) bool {
		isDevice := entry.root == "/"+filepath.Base(device)
		isFileSystem := entry.device == strings.TrimSpace(string(number))
		return (isDevice || isFileSystem) && entry.path != staging
	}), err
}

func bindMount(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	if readOnly {
		if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return errors.Join(fmt.Errorf("make %s read-only: %w", target, err), unmountIfMounted(target))
		}
	}
	return nil
}

func mountDevice(device, target string, flags []string) error {
	arguments := []string{"-t", fileSystem}
	if len(flags) > 0 {
		arguments = append(arguments, "-o", strings.Join(flags, ","))
	}
	return command("mount", append(arguments, device, target)...)
}

func unmountIfMounted(path string) error {
	for {
		mounted, err := isMountPoint(path)
		if err != nil || !mounted {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// makeFileSystemIfBlank never formats a device on which anything is recognised.
func makeFileSystemIfBlank(device string) error {
	found, err := exec.Command("blkid", "--probe", "--output", "value", "--match-tag", "TYPE", device).Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		kind := strings.TrimSpace(string(found))
		if kind == fileSystem {
			return nil
		}
		return fmt.Errorf("%s holds %q, not %s", device, kind, fileSystem)
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		return command("mkfs."+fileSystem, "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", device)
	default:
		return fmt.Errorf("probe %s: %w", device, err)
	}
}

// errOffline tells that the file system cannot grow while it is mounted: the
// kernel wants CAP_SYS_RESOURCE for that, which a restricted machine withholds.
var errOffline = errors.New("the file system grows when it is mounted next: CAP_SYS_RESOURCE is missing")

// growMounted makes the mounted file system as large as its device.
func growMounted(device string) error {
	isSmaller, err := isSmallerThanDevice(device)
	if err != nil || !isSmaller {
		return err
	}
	err = command("resize2fs", device)
	if err != nil && strings.Contains(err.Error(), "Permission denied to resize") {
		return errOffline
	}
	return err
}

// growUnmounted makes a file system as large as its device before it is
// mounted: a clone may be larger than its source, and a volume may have grown.
func growUnmounted(device string) error {
	isSmaller, err := isSmallerThanDevice(device)
	if err != nil || !isSmaller {
		return err
	}
	// Asked for by resize2fs. Exit status 1 says that errors were put right,
	// such as a journal replayed after a snapshot in use.
	output, err := exec.Command("e2fsck", "-f", "-p", device).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return fmt.Errorf("e2fsck %s: %w: %s", device, err, strings.TrimSpace(string(output)))
	}
	return command("resize2fs", device)
}

// isSmallerThanDevice compares the superblock's block count with the device.
func isSmallerThanDevice(device string) (bool, error) {
	handle, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer handle.Close()
	superblock := make([]byte, 1024)
	if _, err := handle.ReadAt(superblock, 1024); err != nil {
		return false, fmt.Errorf("read the superblock of %s: %w", device, err)
	}
	low := binary.LittleEndian.Uint32(superblock[0x4:])
	high := binary.LittleEndian.Uint32(superblock[0x150:])
	blockBytes := int64(1024) << binary.LittleEndian.Uint32(superblock[0x18:])
	bytes, err := deviceBytes(device)
	if err != nil {
		return false, err
	}
	return bytes-(int64(high)<<32|int64(low))*blockBytes >= blockBytes, nil
}

func command(name string, arguments ...string) error {
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
