// Package san is the storage system: a folder with a file system image for each volume, and the record of
// which node each volume is attached to. Only the storage side (controller and commands) changes it; a node
// logs in and reads its own records, as a host sees the disks that are mapped to it.
//
//	VOLUME/disk.img                 the ext4 file system
//	VOLUME/volume.json              what it was made with
//	VOLUME/attachments/NODE.json    the loop device that is this node's way to the disk
package san

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"moonfence.invalid/csi-driver/loop"
)

// What the volume parameter "detach" may say.
const (
	// Bookkeeping: a node from which the volume was detached can go on writing, as with most storage.
	Bookkeeping = "bookkeeping"
	// Fence: its writes fail from the detach on.
	Fence = "fence"
)

// DefaultBytes holds a journal and some hundred thousand lines, and is copied and checked in a tenth of a second.
const DefaultBytes = 32 << 20

// Errors that callers tell apart.
var (
	ErrInvalid   = errors.New("invalid")
	ErrNoVolume  = errors.New("no such volume")
	ErrElsewhere = errors.New("attached elsewhere")
	ErrAttached  = errors.New("still attached")
	ErrDetached  = errors.New("not attached")
	ErrStranger  = errors.New("never logged in")
	ErrRefused   = errors.New("the storage refuses the node")
)

// SAN is a storage system in a folder.
type SAN struct{ folder string }

// Volume is what a volume was made with.
type Volume struct {
	Detach string `json:"detach"`
	Bytes  int64  `json:"bytes"`
}

// Attachment is one node's way to a volume. Each attachment has an identity and a device of its own, so that
// a fence hits what the node had open and not what it is given later.
type Attachment struct {
	ID     string `json:"id"`
	Device string `json:"device"`
}

// Open takes a folder as storage system; it must exist.
func Open(folder string) (*SAN, error) {
	absolute, err := filepath.Abs(folder)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return nil, fmt.Errorf("--san %s: %w; make the folder first", folder, err)
	}
	return &SAN{absolute}, nil
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkName(what, name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf("%w: %s %q; write 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit",
			ErrInvalid, what, name)
	}
	return nil
}

// Image is the file that holds a volume's file system.
func (s *SAN) Image(volume string) string { return filepath.Join(s.folder, volume, "disk.img") }

func (s *SAN) record(volume, node string) string {
	return filepath.Join(s.folder, volume, "attachments", node+".json")
}

// lock keeps controller and commands apart. Nodes never take it: a frozen node must not stop the storage.
func (s *SAN) lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(s.folder, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// Volume reads what a volume was made with.
func (s *SAN) Volume(name string) (Volume, error) {
	var volume Volume
	if err := checkName("volume", name); err != nil {
		return volume, err
	}
	err := readJSON(filepath.Join(s.folder, name, "volume.json"), &volume)
	if errors.Is(err, os.ErrNotExist) {
		return volume, fmt.Errorf("%w: %s", ErrNoVolume, name)
	}
	return volume, err
}

// Create makes a volume with an empty file system. One that is there and was made alike is left as it is.
func (s *SAN) Create(name, detach string, bytes int64) (Volume, error) {
	if err := checkName("volume", name); err != nil {
		return Volume{}, err
	}
	if detach == "" {
		detach = Bookkeeping
	}
	if detach != Bookkeeping && detach != Fence {
		return Volume{}, fmt.Errorf("%w: parameter detach %q; write %q or %q", ErrInvalid, detach, Bookkeeping, Fence)
	}
	unlock, err := s.lock()
	if err != nil {
		return Volume{}, err
	}
	defer unlock()
	wanted := Volume{detach, bytes}
	found, err := s.Volume(name)
	if err == nil && found != wanted {
		return found, fmt.Errorf("%w: volume %s is there with detach %s and %d bytes; choose another name",
			ErrInvalid, name, found.Detach, found.Bytes)
	}
	if err == nil || !errors.Is(err, ErrNoVolume) {
		return found, err
	}
	return wanted, s.make(name, wanted)
}

// make builds the volume beside its place and moves it there whole.
func (s *SAN) make(name string, volume Volume) error {
	building := filepath.Join(s.folder, ".new-"+name)
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(building, "attachments"), 0o700); err != nil {
		return err
	}
	image := filepath.Join(building, "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, volume.Bytes); err != nil {
		return err
	}
	mkfs := exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	if output, err := mkfs.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4 for volume %s: %w: %s", name, err, output)
	}
	if err := writeJSON(filepath.Join(building, "volume.json"), volume); err != nil {
		return err
	}
	return os.Rename(building, filepath.Join(s.folder, name))
}

// Delete removes a volume that is attached nowhere. None is fine.
func (s *SAN) Delete(name string) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.Volume(name); errors.Is(err, ErrNoVolume) {
		return nil
	} else if err != nil {
		return err
	}
	nodes, err := s.nodes(name)
	if err != nil {
		return err
	}
	if len(nodes) > 0 {
		return fmt.Errorf("%w: volume %s to %s", ErrAttached, name, strings.Join(nodes, ", "))
	}
	return os.RemoveAll(filepath.Join(s.folder, name))
}

// nodes lists the nodes that a volume is attached to.
func (s *SAN) nodes(volume string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.folder, volume, "attachments"))
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, entry := range entries {
		if node, ok := strings.CutSuffix(entry.Name(), ".json"); ok {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

func newID() string {
	bytes := make([]byte, 8)
	rand.Read(bytes)
	return "csi-" + hex.EncodeToString(bytes)
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file whole: a node may read it at any time.
func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// bind makes a new way from a node to a volume. Its device writes into the image's page cache, which all
// nodes' ways share: that is the storage system's own memory, and it survives the nodes.
//
// The way of a node that is refused is dead from its beginning.
func (s *SAN) bind(volume, node string) (Attachment, error) {
	address, err := s.Address(node)
	if err != nil {
		return Attachment{}, err
	}
	refused, err := s.Refuses(address)
	if err != nil {
		return Attachment{}, err
	}
	id := newIDFor(address)
	device, err := loop.Bind(s.Image(volume), id, loop.Options{})
	if err != nil {
		return Attachment{}, err
	}
	defer device.Close()
	if refused {
		if err := device.Refuse(); err != nil {
			return Attachment{}, errors.Join(err, device.Clear())
		}
	}
	return Attachment{ID: id, Device: device.Path}, nil
}
