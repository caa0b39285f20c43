package san

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"moonfence.invalid/csi-driver/loop"
)

// The storage knows a node by the address from which that logged in, and refuses addresses, as Ceph's blocklist
// does. It asks no node for it: every way to a disk bears the address of the node that it was given to.
//
//	.nodes/NODE.json    the address that a node logged in from; the node's own word, as with any client
//	.refused.json       the ranges of addresses that are refused

// Login tells the storage a node's address. It is the one thing that a node writes.
func (s *SAN) Login(node, address string) error {
	if err := checkName("node", node); err != nil {
		return err
	}
	parsed, err := netip.ParseAddr(address)
	if err != nil || parsed.Zone() != "" {
		return fmt.Errorf("%w: address %q; write one as 10.78.0.11", ErrInvalid, address)
	}
	if err := os.MkdirAll(filepath.Join(s.folder, ".nodes"), 0o700); err != nil {
		return err
	}
	return writeJSON(s.login(node), parsed)
}

func (s *SAN) login(node string) string { return filepath.Join(s.folder, ".nodes", node+".json") }

// Address is where a node logged in from.
func (s *SAN) Address(node string) (netip.Addr, error) {
	var address netip.Addr
	err := readJSON(s.login(node), &address)
	if errors.Is(err, os.ErrNotExist) {
		return address, fmt.Errorf("%w: node %s; start csi-driver node there first", ErrStranger, node)
	}
	return address, err
}

func (s *SAN) refusals() (string, []netip.Prefix, error) {
	path := filepath.Join(s.folder, ".refused.json")
	var ranges []netip.Prefix
	err := readJSON(path, &ranges)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return path, ranges, err
}

// Refuses says whether an address is refused.
func (s *SAN) Refuses(address netip.Addr) (bool, error) {
	_, ranges, err := s.refusals()
	return slices.ContainsFunc(ranges, func(each netip.Prefix) bool { return each.Contains(address) }), err
}

func parseRange(cidr string) (netip.Prefix, error) {
	parsed, err := netip.ParsePrefix(cidr)
	if err != nil {
		return parsed, fmt.Errorf("%w: range %q; write an address and a mask, as 10.78.0.11/32", ErrInvalid, cidr)
	}
	return parsed.Masked(), nil
}

// Refuse keeps a range of addresses from every disk, until Admit. When it returns, all that nodes of these addresses
// have open is dead to them: they neither read nor write, also by a way that was taken from them since they opened
// it. What they get from now on is dead too.
func (s *SAN) Refuse(cidr string) error {
	refused, err := parseRange(cidr)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	path, ranges, err := s.refusals()
	if err != nil {
		return err
	}
	// Known first: what is given to a node after this is refused, what it was given before is found below.
	if !slices.Contains(ranges, refused) {
		if err := writeJSON(path, append(ranges, refused)); err != nil {
			return err
		}
	}
	devices, err := loop.BoundInside(s.folder)
	if err != nil {
		return err
	}
	var failed []error
	for _, device := range devices {
		if address, ok := addressOf(device); ok && refused.Contains(address) {
			failed = append(failed, device.Refuse())
		}
		device.Close()
	}
	return errors.Join(failed...)
}

// Admit lifts a refusal of exactly this range. The ways that nodes have now live again, and with them what a node
// has mounted since before: boot it first. A range that is not refused is fine.
func (s *SAN) Admit(cidr string) error {
	admitted, err := parseRange(cidr)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	path, ranges, err := s.refusals()
	if err != nil {
		return err
	}
	ranges = slices.DeleteFunc(ranges, func(each netip.Prefix) bool { return each == admitted })
	if err := writeJSON(path, ranges); err != nil {
		return err
	}
	records, err := filepath.Glob(s.record("*", "*"))
	if err != nil {
		return err
	}
	for _, record := range records {
		if err := s.revive(record, admitted); err != nil {
			return err
		}
	}
	return nil
}

// revive undoes what Refuse did to the way on record, unless the address is refused by another range too.
func (s *SAN) revive(record string, admitted netip.Prefix) error {
	var attachment Attachment
	if err := readJSON(record, &attachment); err != nil {
		return err
	}
	device, err := loop.Open(attachment.Device, attachment.ID)
	if errors.Is(err, loop.ErrOther) {
		return nil
	}
	if err != nil {
		return err
	}
	defer device.Close()
	address, ok := addressOf(device)
	if !ok || !admitted.Contains(address) {
		return nil
	}
	if refused, err := s.Refuses(address); refused || err != nil {
		return err
	}
	return device.Admit()
}

// A way's identity ends with the address that it was given to.
func newIDFor(address netip.Addr) string { return newID() + "@" + address.String() }

func addressOf(device *loop.Device) (netip.Addr, bool) {
	tag, err := device.Tag()
	if err != nil {
		return netip.Addr{}, false // its binding has just ended
	}
	_, text, _ := strings.Cut(tag, "@")
	address, err := netip.ParseAddr(text)
	return address, err == nil
}
