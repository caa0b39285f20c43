package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"moonfence.invalid/csi-driver/san"
)

// These tests run the driver as a bed does, but without Kubernetes: a controller, and machines that are a mount
// and a pid namespace each. They need root and loop devices.

var programs string // the folder with csi-driver and writer

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "the driver's tests mount file systems: run them as root")
		os.Exit(1)
	}
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "csi-driver-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		programs = folder
		build := exec.Command("go", "build", "-o", folder+"/", ".", "./writer")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", build.Args, err, output)
			return 1
		}
		return m.Run()
	}())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a state; the limit is for a test that has failed, not for a slow machine.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute not so: %s", what)
		}
	}
}

// addresses are under which the storage knows the nodes.
var addresses = map[string]string{"node-1": "10.78.0.11", "node-2": "10.78.0.12"}

// bed is a storage system with its controller.
type bed struct {
	t          *testing.T
	folder     string
	storage    *san.SAN
	controller csi.ControllerClient
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, folder: t.TempDir()}
	must(t, os.Mkdir(filepath.Join(b.folder, "san"), 0o700))
	storage, err := san.Open(filepath.Join(b.folder, "san"))
	must(t, err)
	b.storage = storage
	t.Cleanup(func() { must(t, storage.Clean()) })
	for node, address := range addresses {
		must(t, storage.Login(node, address))
	}
	socket := filepath.Join(b.folder, "controller.sock")
	server, err := serveController(storage, socket, delays{})
	must(t, err)
	t.Cleanup(server.Stop)
	b.controller = csi.NewControllerClient(dial(t, socket))
	return b
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func ext4() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (b *bed) create(volume, detach string) {
	b.t.Helper()
	_, err := b.controller.CreateVolume(context.Background(), &csi.CreateVolumeRequest{
		Name: volume, Parameters: map[string]string{"detach": detach}, VolumeCapabilities: []*csi.VolumeCapability{ext4()},
	})
	must(b.t, err)
}

func (b *bed) attach(volume, node string) error {
	_, err := b.controller.ControllerPublishVolume(context.Background(), &csi.ControllerPublishVolumeRequest{
		VolumeId: volume, NodeId: node, VolumeCapability: ext4(),
	})
	return err
}

func (b *bed) detach(volume, node string) {
	b.t.Helper()
	_, err := b.controller.ControllerUnpublishVolume(context.Background(), &csi.ControllerUnpublishVolumeRequest{
		VolumeId: volume, NodeId: node,
	})
	must(b.t, err)
}

// onDisk reads the log of a volume's image as the next node would find it.
func (b *bed) onDisk(volume string) string {
	b.t.Helper()
	copied := filepath.Join(b.t.TempDir(), "disk.img")
	outputOf(b.t, "cp", "--sparse=always", b.storage.Image(volume), copied)
	exec.Command("e2fsck", "-y", "-E", "journal_only", copied).Run() // its exit status says what it did, not whether
	return outputOf(b.t, "debugfs", "-R", "cat /log", copied)
}

func outputOf(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	var errors strings.Builder
	command := exec.Command(name, arguments...)
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, arguments, err, errors.String())
	}
	return string(output)
}

// devices counts the loop devices of this storage, and those on top of them.
func (b *bed) devices() int {
	bound, count := map[string]bool{}, 0
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for range 2 {
		count = 0
		for _, file := range files {
			data, _ := os.ReadFile(file)
			backing := strings.TrimSpace(string(data))
			if strings.HasPrefix(backing, b.folder) || bound[backing] {
				bound["/dev/"+filepath.Base(filepath.Dir(filepath.Dir(file)))] = true
				count++
			}
		}
	}
	return count
}

// machine is a node: its driver is pid 1 of a pid namespace, in a mount namespace of its own.
type machine struct {
	bed     *bed
	name    string
	folder  string
	process *exec.Cmd
	node    csi.NodeClient
}

func (b *bed) boot(name string) *machine {
	b.t.Helper()
	m := &machine{bed: b, name: name, folder: filepath.Join(b.folder, name)}
	must(b.t, os.MkdirAll(m.folder, 0o700))
	must(b.t, os.WriteFile(filepath.Join(m.folder, "boot"), []byte("boot-of-"+name+"\n"), 0o600))
	socket := filepath.Join(m.folder, "csi.sock")
	m.process = exec.Command(filepath.Join(programs, "csi-driver"), "node", "--san", filepath.Join(b.folder, "san"),
		"--node", name, "--address", addresses[name], "--socket", socket)
	m.process.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Cloneflags: syscall.CLONE_NEWPID}
	must(b.t, m.process.Start())
	b.t.Cleanup(m.kill)
	m.node = csi.NewNodeClient(dial(b.t, socket))
	_, err := m.node.NodeGetInfo(context.Background(), &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true))
	must(b.t, err)
	return m
}

// kill ends all processes of the machine, and with them its mounts.
func (m *machine) kill() {
	m.process.Process.Kill()
	m.process.Wait()
}

func (m *machine) powerOff() {
	m.bed.t.Helper()
	must(m.bed.t, m.bed.storage.PowerOff(m.name))
	m.kill()
}

func (m *machine) staging(volume string) string { return filepath.Join(m.folder, "staging", volume) }
func (m *machine) target(volume string) string  { return filepath.Join(m.folder, "pods", volume) }

func (m *machine) stage(volume string) error {
	_, err := m.node.NodeStageVolume(context.Background(), &csi.NodeStageVolumeRequest{
		VolumeId: volume, StagingTargetPath: m.staging(volume), VolumeCapability: ext4(),
	})
	return err
}

// mount does what the kubelet does before it starts a pod.
func (m *machine) mount(volume string) {
	m.bed.t.Helper()
	must(m.bed.t, m.stage(volume))
	_, err := m.node.NodePublishVolume(context.Background(), &csi.NodePublishVolumeRequest{
		VolumeId: volume, StagingTargetPath: m.staging(volume), TargetPath: m.target(volume), VolumeCapability: ext4(),
	})
	must(m.bed.t, err)
}

// unmount does what the kubelet does after a pod's end.
func (m *machine) unmount(volume string) {
	m.bed.t.Helper()
	_, err := m.node.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{
		VolumeId: volume, TargetPath: m.target(volume),
	})
	must(m.bed.t, err)
	_, err = m.node.NodeUnstageVolume(context.Background(), &csi.NodeUnstageVolumeRequest{
		VolumeId: volume, StagingTargetPath: m.staging(volume),
	})
	must(m.bed.t, err)
}

// inside makes a command for the machine's namespaces.
func (m *machine) inside(arguments ...string) *exec.Cmd {
	pid := fmt.Sprint(m.process.Process.Pid)
	return exec.Command("nsenter", append([]string{"-t", pid, "-m", "-p", "--"}, arguments...)...)
}

// writing is a writer at work, and the lines that it called durable.
type writing struct {
	t       *testing.T
	process *exec.Cmd
	ended   chan error
	mutex   sync.Mutex
	durable []string
}

func (m *machine) write(volume, pod, interval string) *writing {
	m.bed.t.Helper()
	process := m.inside(filepath.Join(programs, "writer"), "--file", filepath.Join(m.target(volume), "log"),
		"--boot-file", filepath.Join(m.folder, "boot"), "--witness", m.folder, "--interval", interval)
	process.Env = append(os.Environ(), "NODE_NAME="+m.name, "POD_NAME=db-0", "POD_UID="+pod)
	output, err := process.StdoutPipe()
	must(m.bed.t, err)
	must(m.bed.t, process.Start())
	w := &writing{t: m.bed.t, process: process, ended: make(chan error, 1)}
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			words := strings.SplitN(lines.Text(), " ", 3)
			w.mutex.Lock()
			w.durable = append(w.durable, words[2])
			w.mutex.Unlock()
		}
		w.ended <- process.Wait()
	}()
	return w
}

func (w *writing) lines() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]string(nil), w.durable...)
}

// witnessed reads the lines that a writer called durable on the machine's own disk.
func (m *machine) witnessed(pod string) []string {
	m.bed.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.folder, "db-0_"+pod))
	must(m.bed.t, err)
	var lines []string
	for said := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimSuffix(strings.SplitN(said, " ", 3)[2], "\n"))
	}
	return lines
}

// more waits until so many further lines are durable.
func (w *writing) more(count int) {
	w.t.Helper()
	before := len(w.lines())
	eventually(w.t, fmt.Sprintf("%d more lines", count), func() bool { return len(w.lines()) >= before+count })
}

// end waits for the writer's own end, and returns its error.
func (w *writing) end() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(time.Minute):
		w.t.Fatal("the writer writes on after a minute")
		return nil
	}
}

// stop asks the writer to end, as the kubelet does. nsenter hands the signal on to nobody, so it goes to the child.
func (w *writing) stop() {
	w.t.Helper()
	pid := w.process.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must(w.t, err)
	var child int
	_, err = fmt.Sscan(string(children), &child)
	must(w.t, err)
	must(w.t, syscall.Kill(child, syscall.SIGTERM))
	must(w.t, w.end())
}
