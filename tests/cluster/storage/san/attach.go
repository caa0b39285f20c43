package san

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"moonfence.invalid/csi-driver/loop"
)

// Attachment reads how a node reaches a volume.
func (s *SAN) Attachment(volume, node string) (Attachment, error) {
	var attachment Attachment
	err := readJSON(s.record(volume, node), &attachment)
	if errors.Is(err, os.ErrNotExist) {
		return attachment, fmt.Errorf("%w: volume %s to node %s", ErrDetached, volume, node)
	}
	return attachment, err
}

// Attach gives a node a way to a volume, or says which one it has.
func (s *SAN) Attach(volume, node string) (Attachment, error) {
	if err := checkName("node", node); err != nil {
		return Attachment{}, err
	}
	unlock, err := s.lock()
	if err != nil {
		return Attachment{}, err
	}
	defer unlock()
	if _, err := s.Volume(volume); err != nil {
		return Attachment{}, err
	}
	nodes, err := s.nodes(volume)
	if err != nil {
		return Attachment{}, err
	}
	for _, other := range nodes {
		if other != node {
			return Attachment{}, fmt.Errorf("%w: volume %s to node %s", ErrElsewhere, volume, other)
		}
		return s.Attachment(volume, node)
	}
	return s.attach(volume, node)
}

func (s *SAN) attach(volume, node string) (Attachment, error) {
	attachment, err := s.bind(volume, node)
	if err != nil {
		return attachment, err
	}
	if err := writeJSON(s.record(volume, node), attachment); err != nil {
		return attachment, errors.Join(err, end(attachment, false))
	}
	return attachment, nil
}

// Detach takes a node's way to a volume from it, without asking the node. With "fence" the node's writes have
// failed from some moment before this returns; with "bookkeeping" a node that has the volume mounted keeps its
// device until it unmounts. A volume or attachment that is not there is fine.
func (s *SAN) Detach(volume, node string) error {
	if err := checkName("node", node); err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	made, err := s.Volume(volume)
	if errors.Is(err, ErrNoVolume) {
		return nil
	}
	if err != nil {
		return err
	}
	attachment, err := s.Attachment(volume, node)
	if errors.Is(err, ErrDetached) {
		return nil
	}
	if err != nil {
		return err
	}
	// The record goes last: a detach that fails half-way is still on record, and is tried again.
	if err := end(attachment, made.Detach == Fence); err != nil {
		return err
	}
	return os.Remove(s.record(volume, node))
}

// end closes a way. One that is closed already is fine.
func end(attachment Attachment, fence bool) error {
	device, err := loop.Open(attachment.Device, attachment.ID)
	if errors.Is(err, loop.ErrOther) {
		return nil
	}
	if err != nil {
		return err
	}
	defer device.Close()
	if fence {
		if err := device.Fence(); err != nil {
			return err
		}
	}
	return device.Clear()
}

// PowerOff makes a node lose its memory, as far as its volumes go: what it has not written out by now never
// arrives. To be called just before its processes are killed; without it the kernel would unmount the dead
// machine's file systems in order and write everything out. The volumes stay attached to the node, by new ways
// that it finds when it boots.
func (s *SAN) PowerOff(node string) error {
	if err := checkName("node", node); err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	records, err := filepath.Glob(s.record("*", node))
	if err != nil {
		return err
	}
	for _, record := range records {
		volume := filepath.Base(filepath.Dir(filepath.Dir(record)))
		attachment, err := s.Attachment(volume, node)
		if err == nil {
			err = end(attachment, true)
		}
		if err == nil {
			_, err = s.attach(volume, node)
		}
		if err != nil {
			return fmt.Errorf("power off %s, volume %s: %w", node, volume, err)
		}
	}
	return nil
}

// Clean closes every way to this storage and forgets the attachments: for what a killed run has left.
func (s *SAN) Clean() error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	devices, err := loop.BoundInside(s.folder)
	if err != nil {
		return err
	}
	var failed []error
	for _, device := range devices {
		failed = append(failed, device.Fence(), device.Clear())
		device.Close()
	}
	records, err := filepath.Glob(s.record("*", "*"))
	failed = append(failed, err)
	for _, record := range records {
		failed = append(failed, os.Remove(record))
	}
	return errors.Join(failed...)
}
