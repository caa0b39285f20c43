package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moonfence.invalid/csi-driver/san"
)

// read goes past the page cache, which is the node's own.
func (m *machine) read(path string) error {
	return m.inside("dd", "if="+path, "of=/dev/null", "bs=4096", "count=1", "iflag=direct").Run()
}

// writeLine makes one line durable, or fails.
func (m *machine) writeLine(path string) error {
	return m.inside("sh", "-c", `echo line | dd of="$0" oflag=append conv=notrunc,fsync`, path).Run()
}

func TestARefusedNodeNeitherWritesNorReads(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	b.create("w", san.Bookkeeping)
	one, two := b.boot("node-1"), b.boot("node-2")
	must(t, b.attach("v", "node-1"))
	must(t, b.attach("w", "node-2"))
	one.mount("v")
	two.mount("w")
	first, other := one.write("v", "pod-1", "1ms"), two.write("w", "pod-2", "1ms")
	first.more(20)
	log := filepath.Join(one.target("v"), "log")
	must(t, one.read(log))
	must(t, b.storage.Refuse("10.78.0.11/32"))
	refused := b.digest("v")
	if err := first.end(); err == nil {
		t.Error("the writer ended without an error")
	}
	if one.writeLine(log) == nil {
		t.Error("the refused node writes")
	}
	if one.read(log) == nil {
		t.Error("the refused node reads")
	}
	other.more(5) // it has another address
	other.stop()

	b.detach("v", "node-1")
	must(t, b.attach("v", "node-2"))
	if b.digest("v") != refused {
		t.Error("the refused node changed the volume")
	}
	two.mount("v")
	second := two.write("v", "pod-2", "1ms")
	second.more(5)
	if one.writeLine(log) == nil {
		t.Error("the refused node writes by the way that was taken from it")
	}
	second.stop()
	two.unmount("v")
	one.unmount("v")
	all(t, b.onDisk("v"), append(first.lines(), second.lines()...))
	b.clean("v")
}

// A detach that is bookkeeping leaves the node its way. It is refused by its address, not by what is on record.
func TestARefusalFindsTheWayOfAVolumeThatWasDetachedBefore(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	writer := one.write("v", "pod-1", "1ms")
	writer.more(5)
	b.detach("v", "node-1")
	writer.more(5)
	must(t, b.storage.Refuse("10.78.0.0/28"))
	refused := b.digest("v")
	if err := writer.end(); err == nil {
		t.Error("the writer ended without an error")
	}
	one.unmount("v")
	if b.digest("v") != refused {
		t.Error("the refused node changed the volume")
	}
}

func TestARefusalHoldsOverAReboot(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	first := one.write("v", "pod-1", "1ms")
	first.more(5)
	must(t, b.storage.Refuse("10.78.0.11/32"))
	if err := one.stage("v"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("staged by a refused node: %v", err)
	}
	one.powerOff()
	one = b.boot("node-1")
	if err := one.stage("v"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("staged by a refused node after its reboot: %v", err)
	}
	attachment, err := b.storage.Attachment("v", "node-1")
	must(t, err)
	if exec.Command("dd", "if=/dev/zero", "of="+attachment.Device, "count=1", "conv=fsync").Run() == nil {
		t.Error("a refused node's new way can be written to")
	}

	must(t, b.storage.Admit("10.78.0.11/32"))
	one.mount("v")
	second := one.write("v", "pod-2", "1ms")
	second.more(5)
	second.stop()
	one.unmount("v")
	b.detach("v", "node-1")
	all(t, b.onDisk("v"), append(first.lines(), second.lines()...))
	b.clean("v")
	eventually(t, "no loop device is left", func() bool { return b.devices() == 0 })
}

// The ways of one node are wanted back, and those of another are not: what a detach has fenced stays so.
func TestWhatIsAdmittedIsTheRangeAndNothingElse(t *testing.T) {
	b := newBed(t)
	for _, volume := range []string{"fenced", "held", "twice"} {
		b.create(volume, san.Fence)
	}
	one, two := b.boot("node-1"), b.boot("node-2")
	for volume, node := range map[string]*machine{"fenced": one, "held": two, "twice": one} {
		must(t, b.attach(volume, node.name))
		node.mount(volume)
	}
	b.detach("fenced", "node-1")
	for _, cidr := range []string{"10.78.0.11/32", "10.78.0.12/32", "10.78.0.8/30"} {
		must(t, b.storage.Refuse(cidr))
		must(t, b.storage.Refuse(cidr)) // once more is fine
	}
	must(t, b.storage.Admit("10.78.0.11/32"))
	must(t, b.storage.Admit("10.9.0.0/16")) // never refused
	for volume, node := range map[string]*machine{"fenced": one, "held": two, "twice": one} {
		if node.writeLine(filepath.Join(node.target(volume), "log")) == nil {
			t.Errorf("volume %s can be written to", volume)
		}
	}
	must(t, b.storage.Admit("10.78.0.8/30"))
	if one.writeLine(filepath.Join(one.target("fenced"), "log")) == nil {
		t.Error("an end of the refusal undid the detach")
	}
}

// What the documents warn of: boot first, then lift.
func TestALiftWithoutARebootLetsAnIdleMountWriteAgain(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	log := filepath.Join(one.target("v"), "log")
	must(t, one.writeLine(log))
	must(t, b.storage.Refuse("10.78.0.11/32"))
	must(t, b.storage.Admit("10.78.0.11/32"))
	must(t, one.writeLine(log))
	must(t, one.read(log))
	one.unmount("v")
	b.detach("v", "node-1")
	b.clean("v")
}

func TestOddAddressesAreRefusedBeforeAnythingIsDone(t *testing.T) {
	b := newBed(t)
	for _, odd := range []string{"", "10.78.0.11", "10.78.0.11/33", "node-1", "::1%lo/128"} {
		if err := b.storage.Refuse(odd); !errors.Is(err, san.ErrInvalid) {
			t.Errorf("refuse %q: %v", odd, err)
		}
		if err := b.storage.Admit(odd); !errors.Is(err, san.ErrInvalid) {
			t.Errorf("admit %q: %v", odd, err)
		}
	}
	for _, odd := range []string{"", "10.78.0.11/32", "fe80::1%eth0"} {
		if err := b.storage.Login("node-3", odd); !errors.Is(err, san.ErrInvalid) {
			t.Errorf("log in from %q: %v", odd, err)
		}
	}
	b.create("v", san.Bookkeeping)
	if err := b.attach("v", "node-3"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("attached to a node that never logged in: %v", err)
	}
}
