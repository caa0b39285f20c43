package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moonfence.invalid/csi-driver/san"
)

// all demands that each line stands in a text.
func all(t *testing.T, text string, lines []string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("not on the disk: %s", line)
		}
	}
}

func (b *bed) digest(volume string) [32]byte {
	b.t.Helper()
	data, err := os.ReadFile(b.storage.Image(volume))
	must(b.t, err)
	return sha256.Sum256(data)
}

func (b *bed) clean(volume string) {
	b.t.Helper()
	copied := filepath.Join(b.t.TempDir(), "disk.img")
	outputOf(b.t, "cp", "--sparse=always", b.storage.Image(volume), copied)
	outputOf(b.t, "e2fsck", "-fn", copied) // fails on any error
}

func TestNextNodeFindsWhatTheLastOneWrote(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one, two := b.boot("node-1"), b.boot("node-2")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	first := one.write("v", "pod-1", "1ms")
	first.more(5)
	first.stop()
	one.unmount("v")
	b.detach("v", "node-1")
	must(t, b.attach("v", "node-2"))
	two.mount("v")
	second := two.write("v", "pod-2", "1ms")
	second.more(5)
	second.stop()
	if !slices.Equal(one.witnessed("pod-1"), first.lines()) {
		t.Error("the writer's output and its witness differ")
	}
	if words := second.lines()[0]; !strings.Contains(words, "last \""+first.lines()[len(first.lines())-1]) {
		t.Errorf("the second writer found something else: %s", words)
	}
	two.unmount("v")
	b.detach("v", "node-2")
	all(t, b.onDisk("v"), append(first.lines(), second.lines()...))
	b.clean("v")
	eventually(t, "no loop device is left", func() bool { return b.devices() == 0 })
}

func TestDetachByBookkeepingLetsTheNodeWriteOn(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	one, two := b.boot("node-1"), b.boot("node-2")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	first := one.write("v", "pod-1", "10ms")
	first.more(5)
	b.detach("v", "node-1")
	must(t, b.attach("v", "node-2"))
	two.mount("v")
	second := two.write("v", "pod-2", "10ms")
	second.more(5)
	first.more(5) // two writers
}

func TestDetachByFenceEndsTheNodesWrites(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one, two := b.boot("node-1"), b.boot("node-2")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	first := one.write("v", "pod-1", "0s")
	first.more(50)
	b.detach("v", "node-1")
	fenced := b.digest("v")
	if err := first.end(); err == nil {
		t.Error("the writer ended without an error")
	}
	one.unmount("v") // writes out what it has, to no avail
	if b.digest("v") != fenced {
		t.Error("the node changed the volume after the detach")
	}
	must(t, b.attach("v", "node-2"))
	two.mount("v")
	second := two.write("v", "pod-2", "1ms")
	second.more(5)
	second.stop()
	two.unmount("v")
	b.detach("v", "node-2")
	all(t, b.onDisk("v"), append(first.lines(), second.lines()...))
	b.clean("v")
	eventually(t, "no loop device is left", func() bool { return b.devices() == 0 })
}

func TestFenceStopsWhatIsInThePageCache(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	log := filepath.Join(one.target("v"), "log")
	must(t, one.inside("sh", "-c", "echo synced >"+log+" && sync "+log).Run())
	must(t, one.inside("sh", "-c", "echo in memory >>"+log).Run())
	b.detach("v", "node-1")
	if err := one.inside("sync", log).Run(); err == nil {
		t.Error("the line in memory could be written out")
	}
	one.unmount("v")
	if text := b.onDisk("v"); text != "synced\n" {
		t.Errorf("on the disk: %q", text)
	}
}

// The fence comes while large writes are on their way, past the node's page cache.
func TestNothingChangesAfterAFenceUnderLoad(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one := b.boot("node-1")
	for round := range 8 {
		must(t, b.attach("v", "node-1"))
		one.mount("v")
		writer := one.write("v", fmt.Sprintf("pod-%d", round), "0s")
		load := one.inside("sh", "-c", `while dd if=/dev/urandom of="$0" bs=1M count=4 oflag=direct conv=notrunc; do :; done`,
			filepath.Join(one.target("v"), "load"))
		must(t, load.Start())
		writer.more(20)
		b.detach("v", "node-1")
		fenced := b.digest("v")
		if err := writer.end(); err == nil {
			t.Fatal("the writer ended without an error")
		}
		load.Wait()
		one.unmount("v")
		if b.digest("v") != fenced {
			t.Fatal("the node changed the volume after the detach")
		}
		all(t, b.onDisk("v"), writer.lines())
	}
}

// What the storage has answered is in the image, not in a memory between node and image.
func TestAWriteThatWasAnsweredIsBeforeTheFence(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	log := filepath.Join(one.target("v"), "log")
	must(t, one.inside("sh", "-c", "tr '\\0' a </dev/zero | head -c 1048576 >"+log+" && sync "+log).Run())
	must(t, one.inside("sh", "-c", "tr '\\0' b </dev/zero | dd of="+log+
		" iflag=fullblock oflag=direct conv=notrunc bs=1M count=1").Run())
	b.detach("v", "node-1")
	fenced := b.digest("v")
	if text := b.onDisk("v"); text != strings.Repeat("b", 1<<20) {
		t.Errorf("the write is not in the image: %d bytes, begin %.10q", len(text), text)
	}
	one.unmount("v")
	if b.digest("v") != fenced {
		t.Error("the image changed after the detach")
	}
}

func TestDetachDoesNotAskTheNode(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	must(t, one.process.Process.Signal(syscall.SIGSTOP))
	b.detach("v", "node-1")
	must(t, b.attach("v", "node-2"))
	two := b.boot("node-2")
	two.mount("v")
	two.write("v", "pod-2", "1ms").more(5)
}

func TestPowerOffLosesWhatWasNotSynced(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	log := filepath.Join(one.target("v"), "log")
	must(t, one.inside("sh", "-c", "echo synced >"+log+" && sync "+log).Run())
	must(t, one.inside("sh", "-c", "echo in memory >>"+log).Run())
	one.powerOff()
	eventually(t, "the dead machine's devices are gone", func() bool { return b.devices() == 1 })
	if text := b.onDisk("v"); text != "synced\n" {
		t.Errorf("on the disk: %q", text)
	}
	b.detach("v", "node-1")
	eventually(t, "no loop device is left", func() bool { return b.devices() == 0 })
}

func TestRebootedNodeStagesItsVolumeAgain(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	one := b.boot("node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	before := one.write("v", "pod-1", "0s")
	before.more(20)
	one.powerOff()
	one = b.boot("node-1") // the volume is attached to it still
	one.mount("v")
	after := one.write("v", "pod-1", "1ms")
	after.more(5)
	after.stop()
	one.unmount("v")
	b.detach("v", "node-1")
	all(t, b.onDisk("v"), append(before.lines(), after.lines()...))
	b.clean("v")
}

func TestRestartOfTheDriverLeavesItsMounts(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	must(t, b.attach("v", "node-1"))
	one := b.boot("node-1")
	one.mount("v")
	one.mount("v") // the kubelet asks again after a restart of its own
	one.unmount("v")
	one.unmount("v")
	eventually(t, "the node's device is gone", func() bool { return b.devices() == 1 })
}

func TestStageReplacesTheMountOfAnAttachmentThatIsOver(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Fence)
	must(t, b.attach("v", "node-1"))
	one := b.boot("node-1")
	must(t, one.stage("v"))
	b.detach("v", "node-1")
	must(t, b.attach("v", "node-1"))
	one.mount("v")
	one.write("v", "pod-1", "1ms").more(5)
}

func TestVolumeIsRefusedToASecondNode(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	must(t, b.attach("v", "node-1"))
	must(t, b.attach("v", "node-1"))
	if err := b.attach("v", "node-2"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("attached to a second node: %v", err)
	}
	if err := b.boot("node-2").stage("v"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("staged without an attachment: %v", err)
	}
}

func TestBadInputIsRefusedWithTheRule(t *testing.T) {
	b := newBed(t)
	_, err := b.controller.CreateVolume(context.Background(), &csi.CreateVolumeRequest{
		Name: "v", Parameters: map[string]string{"detach": "perhaps"}, VolumeCapabilities: []*csi.VolumeCapability{ext4()},
	})
	const rule = `invalid: parameter detach "perhaps"; write "bookkeeping" or "fence"`
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != rule {
		t.Errorf("detach=perhaps: %v", err)
	}
	if err := b.attach("../v", "node-1"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a path as volume: %v", err)
	}
	if err := b.attach("missing", "node-1"); status.Code(err) != codes.NotFound {
		t.Errorf("a volume that is not there: %v", err)
	}
	b.detach("missing", "node-1")
}

func TestCommandLineSaysWhatIsWrong(t *testing.T) {
	folder := t.TempDir()
	tests := []struct {
		said      string
		arguments []string
	}{
		{`unknown mode "serve"; csi-driver --help lists them`, []string{"serve"}},
		{`node needs --san; csi-driver --help says what it is`, []string{"node", "--node", "n"}},
		{`power-off needs --node; csi-driver --help says what it is`, []string{"power-off", "--san", folder}},
		{`unexpected argument "all"; csi-driver --help lists what clean takes`, []string{"clean", "--san", folder, "all"}},
		{`--size "1Ki": write bytes, or a number with Mi or Gi, from 16Mi to 1024Gi`,
			[]string{"create", "--san", folder, "--volume", "v", "--size", "1Ki"}},
		{`--san /nowhere: lstat /nowhere: no such file or directory; make the folder first`,
			[]string{"clean", "--san", "/nowhere"}},
	}
	for _, test := range tests {
		if err := run(test.arguments[0], test.arguments[1:]); err == nil || err.Error() != test.said {
			t.Errorf("%v: %v", test.arguments, err)
		}
	}
}

func TestDeletedVolumeIsGoneAndAnAttachedOneIsKept(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	must(t, b.attach("v", "node-1"))
	remove := func() error {
		_, err := b.controller.DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: "v"})
		return err
	}
	if err := remove(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("deleted while attached: %v", err)
	}
	b.detach("v", "node-1")
	must(t, remove())
	must(t, remove())
	if _, err := b.storage.Volume("v"); err == nil {
		t.Error("the volume is there still")
	}
}

func TestCleanTakesAwayWhatAKilledRunLeft(t *testing.T) {
	b := newBed(t)
	b.create("v", san.Bookkeeping)
	b.create("w", san.Fence)
	must(t, b.attach("v", "node-1"))
	must(t, b.attach("w", "node-1"))
	one := b.boot("node-1")
	one.mount("v")
	must(t, b.storage.Clean())
	one.kill()
	eventually(t, "no loop device is left", func() bool { return b.devices() == 0 })
	if err := b.attach("v", "node-2"); err != nil {
		t.Errorf("an attachment is on record still: %v", err)
	}
}
