// Package loop binds loop devices to files and takes them away again.
//
// A loop device belongs to the whole kernel, not to a machine made of namespaces. So each binding has a
// tag, and whoever opens a device by its path says which tag it expects: the number may have been given
// to another volume since the path was read.
package loop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The numbers from first on are taken, far above what losetup hands out. A fence leaves its mark on the
// number, not on the binding (see Fence), and nobody else shall meet it.
const (
	first = 4096
	last  = first + 4095
)

// ErrOther means that a path does not, or no longer, lead to the binding that was meant.
var ErrOther = errors.New("the loop device is bound to something else")

// Options of a binding.
type Options struct {
	// Direct reads and writes the file past its page cache.
	Direct bool
	// UntilLastClose ends the binding when nobody has the device open or mounted any more.
	UntilLastClose bool
}

// Device is an open loop device. Its binding stays while it is open.
type Device struct {
	Path string
	file *os.File
}

// Bind gives a file, or a block device, a loop device of its own.
func Bind(path, tag string, options Options) (*Device, error) {
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], tag)
	if options.Direct {
		config.Info.Flags |= unix.LO_FLAGS_DIRECT_IO
	}
	if options.UntilLastClose {
		config.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}
	for number := first; number <= last; number++ {
		device, err := bindNumber(number, &config)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
			continue // taken, or removed by somebody who cleans up
		}
		if err != nil {
			return nil, fmt.Errorf("loop device %d for %s: %w", number, path, err)
		}
		if err := device.check(options); err != nil {
			device.Clear()
			device.Close()
			return nil, fmt.Errorf("%s for %s: %w", device.Path, path, err)
		}
		return device, nil
	}
	return nil, fmt.Errorf("no free loop device between %d and %d for %s", first, last, path)
}

func bindNumber(number int, config *unix.LoopConfig) (*Device, error) {
	if _, err := os.Stat(fmt.Sprintf("/sys/block/loop%d/loop", number)); err == nil {
		return nil, unix.EBUSY
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w (are loop devices allowed here?)", err)
	}
	defer control.Close()
	err = unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_ADD, number)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	path := fmt.Sprintf("/dev/loop%d", number)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlLoopConfigure(int(file.Fd()), config); err != nil {
		file.Close()
		return nil, err
	}
	return &Device{Path: path, file: file}, nil
}

// check undoes the fence of an earlier binding of this number, and makes sure that the kernel did what was asked.
func (d *Device) check(options Options) error {
	if err := d.setReadOnly(0); err != nil {
		return err
	}
	info, err := unix.IoctlLoopGetStatus64(int(d.file.Fd()))
	if err != nil {
		return err
	}
	if options.Direct && info.Flags&unix.LO_FLAGS_DIRECT_IO == 0 {
		return errors.New("the kernel refuses direct I/O")
	}
	return nil
}

// Open opens a device if it still is the binding with this tag.
func Open(path, tag string) (*Device, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%s: %w", path, ErrOther)
	}
	if err != nil {
		return nil, err
	}
	device := &Device{Path: path, file: file}
	if found, err := device.Tag(); err != nil || found != tag {
		device.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrOther)
	}
	return device, nil
}

// Tag is what the binding was made with.
func (d *Device) Tag() (string, error) {
	info, err := unix.IoctlLoopGetStatus64(int(d.file.Fd()))
	if err != nil {
		return "", err
	}
	return unix.ByteSliceToString(info.File_name[:]), nil
}

// Fence fails every write to this device from now on, whoever has it open. It works on a device that is the
// file of a second one: the kernel looks at the read-only mark in write(2) to a block device, and the second
// device writes by that way. A file system that is mounted on this very device would not be stopped.
//
// When it returns, writes that had passed the mark are in the file: first those that the second device is at are
// waited for, then those that it has handed on.
func (d *Device) Fence() error {
	if err := d.setReadOnly(1); err != nil {
		return fmt.Errorf("fence %s: %w", d.Path, err)
	}
	upper, err := bound(func(backing string) bool { return backing == d.Path })
	if err != nil {
		return err
	}
	for _, device := range upper {
		err := device.drain()
		device.Close()
		// Gone is well. A kernel may refuse this on a mounted device; the second drain then leaves out only a
		// write that was between the mark and the queue in this instant.
		if err != nil && !errors.Is(err, unix.ENXIO) && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return d.drain()
}

// Refuse fails every read too. A device of one sector has nothing behind that sector, and whoever reads there by a
// second device gets EIO. The fence comes first: without it a write would be told that there is no space left.
func (d *Device) Refuse() error {
	if err := d.Fence(); err != nil {
		return err
	}
	return d.limit(sector)
}

// Admit undoes what Refuse did.
func (d *Device) Admit() error {
	if err := d.limit(0); err != nil {
		return err
	}
	return d.setReadOnly(0)
}

const sector = 512

// limit makes the device so many bytes long; 0: as long as its file.
func (d *Device) limit(bytes uint64) error {
	info, err := unix.IoctlLoopGetStatus64(int(d.file.Fd()))
	if err == nil {
		info.Sizelimit = bytes
		err = unix.IoctlLoopSetStatus64(int(d.file.Fd()), info)
	}
	if err != nil {
		return fmt.Errorf("limit %s to %d bytes: %w", d.Path, bytes, err)
	}
	return nil
}

// drain waits for the requests in flight: setting the status, here to what it is, does.
func (d *Device) drain() error {
	info, err := unix.IoctlLoopGetStatus64(int(d.file.Fd()))
	if err == nil {
		err = unix.IoctlLoopSetStatus64(int(d.file.Fd()), info)
	}
	if err != nil {
		return fmt.Errorf("drain %s: %w", d.Path, err)
	}
	return nil
}

func (d *Device) setReadOnly(value int) error {
	return unix.IoctlSetPointerInt(int(d.file.Fd()), unix.BLKROSET, value)
}

// Clear ends the binding: at once, or with the last user's close if somebody else has the device open.
func (d *Device) Clear() error {
	if err := unix.IoctlSetInt(int(d.file.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("clear %s: %w", d.Path, err)
	}
	return nil
}

// Close lets go of the device.
func (d *Device) Close() { d.file.Close() }

// TagOfMounted is the tag of the device of ours whose file system is mounted at a path; "" if none is.
func TagOfMounted(path string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	target, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	name := filepath.Base(target)
	var number int
	if _, scanned := fmt.Sscanf(name, "loop%d", &number); err != nil || scanned != nil || number < first {
		return "", nil
	}
	file, err := os.Open("/dev/" + name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return (&Device{file: file}).Tag()
}

// BoundInside lists the devices whose file is, or was before its deletion, inside a folder.
func BoundInside(folder string) ([]*Device, error) {
	return bound(func(backing string) bool { return strings.HasPrefix(backing, folder+"/") })
}

func bound(wanted func(backing string) bool) ([]*Device, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var devices []*Device
	for _, name := range files {
		backing, err := os.ReadFile(name)
		if err != nil || !wanted(strings.TrimSuffix(string(backing), "\n")) {
			continue // no, or no longer
		}
		path := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(name)))
		if file, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			devices = append(devices, &Device{Path: path, file: file})
		}
	}
	return devices, nil
}
