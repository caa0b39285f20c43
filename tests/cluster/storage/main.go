// Command csi-driver is a CSI driver for tests with real kubelets. README.md says how it works and why.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc"

	"moonfence.invalid/csi-driver/san"
)

// driverName is what CSIDriver, StorageClass and PersistentVolume objects call this driver.
const driverName = "csi.moonfence.test"

const usage = `csi-driver: volumes for tests with real kubelets, ext4 on loop devices

  csi-driver create     --san DIR --volume NAME [--detach bookkeeping|fence] [--size 32Mi]
      makes a volume
  csi-driver controller --san DIR --socket PATH [--attach-delay 0s] [--detach-delay 0s]
      serves the CSI controller, for external-attacher
  csi-driver node       --san DIR --node NAME --address ADDRESS --socket PATH [--registry DIR]
      serves the CSI node on a machine, and registers it with the kubelet that watches --registry; the storage
      knows the machine by --address
  csi-driver addons     --san DIR --kubeconfig FILE
      carries out NetworkFences, and says under which address the storage knows each node
  csi-driver power-off  --san DIR --node NAME
      what the node has not written out is lost; kill its processes next
  csi-driver clean      --san DIR
      takes all devices away and forgets all attachments

--san is the folder of the volumes, the same for controller and nodes. All modes need root.
`

type options struct {
	san, volume, detach, size, node, address, socket, registry, kubeconfig string
	delays                                                                 delays
}

func parse(mode string, arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("csi-driver "+mode, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.StringVar(&o.san, "san", "", "")
	needed := []string{"san"}
	switch mode {
	case "create":
		flags.StringVar(&o.volume, "volume", "", "")
		flags.StringVar(&o.detach, "detach", san.Bookkeeping, "")
		flags.StringVar(&o.size, "size", strconv.Itoa(san.DefaultBytes), "")
		needed = append(needed, "volume")
	case "controller":
		flags.StringVar(&o.socket, "socket", "", "")
		flags.DurationVar(&o.delays.attach, "attach-delay", 0, "")
		flags.DurationVar(&o.delays.detach, "detach-delay", 0, "")
		needed = append(needed, "socket")
	case "node":
		flags.StringVar(&o.node, "node", "", "")
		flags.StringVar(&o.address, "address", "", "")
		flags.StringVar(&o.socket, "socket", "", "")
		flags.StringVar(&o.registry, "registry", "", "")
		needed = append(needed, "node", "address", "socket")
	case "addons":
		flags.StringVar(&o.kubeconfig, "kubeconfig", "", "")
		needed = append(needed, "kubeconfig")
	case "power-off":
		flags.StringVar(&o.node, "node", "", "")
		needed = append(needed, "node")
	case "clean":
	default:
		return o, fmt.Errorf("unknown mode %q; csi-driver --help lists them", mode)
	}
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; csi-driver --help lists what %s takes", flags.Arg(0), mode)
	}
	for _, name := range needed {
		if flags.Lookup(name).Value.String() == "" {
			return o, fmt.Errorf("%s needs --%s; csi-driver --help says what it is", mode, name)
		}
	}
	return o, nil
}

// parseSize reads a number of bytes with an optional Mi or Gi.
func parseSize(text string) (int64, error) {
	factor, digits := int64(1), text
	for suffix, bytes := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			factor, digits = bytes, rest
		}
	}
	number, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || number*factor < 16<<20 || number*factor > 1<<40 {
		return 0, fmt.Errorf("--size %q: write bytes, or a number with Mi or Gi, from 16Mi to 1024Gi", text)
	}
	return number * factor, nil
}

func run(mode string, arguments []string) error {
	o, err := parse(mode, arguments)
	if err != nil {
		return err
	}
	storage, err := san.Open(o.san)
	if err != nil {
		return err
	}
	switch mode {
	case "create":
		bytes, err := parseSize(o.size)
		if err != nil {
			return err
		}
		_, err = storage.Create(o.volume, o.detach, bytes)
		return err
	case "power-off":
		return storage.PowerOff(o.node)
	case "clean":
		return storage.Clean()
	case "addons":
		addons, err := newAddons(storage, o.kubeconfig)
		if err != nil {
			return err
		}
		addons.run()
		return nil
	case "controller":
		server, err := serveController(storage, o.socket, o.delays)
		return untilSignal(err, server)
	default:
		server, err := serveNode(storage, o.node, o.address, o.socket)
		if err != nil || o.registry == "" {
			return untilSignal(err, server)
		}
		registration, err := serveRegistration(o.registry, o.socket)
		return untilSignal(err, server, registration)
	}
}

// untilSignal lets servers work until the process is told to end.
func untilSignal(err error, servers ...*grpc.Server) error {
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	for _, server := range servers {
		server.Stop()
	}
	return nil
}

func main() {
	if len(os.Args) < 2 || os.Args[1] == "--help" || os.Args[1] == "-h" {
		fmt.Print(usage)
		return
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "csi-driver:", err)
		os.Exit(1)
	}
}
