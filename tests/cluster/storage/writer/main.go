// Command writer is what pods with a volume run. It appends lines to a file, each made durable before the next:
//
//	NUMBER TIME NODE BOOT POD [WORDS]
//
// The numbers count from 0 in each life of the writer; line 0 goes on with what the writer found:
// "found N lines, last LINE". TIME is the kernel's monotonic clock in seconds, the same on all machines of a
// test. When a line is on the disk the writer says so on its output, with the time then:
//
//	durable TIME LINE
//
// and says the same in a file of the folder --witness, on the machine's own disk, called POD_NAME_UID: a container's
// output goes with its pod, and what is on the volume the next writer may overwrite.
//
// It ends on the first error, because a database would, and with 0 on SIGTERM unless it is deaf.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type writer struct {
	file            *os.File
	node, boot, pod string
	number          int
	said            io.Writer
}

func now() string {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // cannot happen: every kernel has this clock
	}
	return fmt.Sprintf("%d.%09d", t.Sec, t.Nsec)
}

// write appends one line, and says so once it is on the disk.
func (w *writer) write(words string) error {
	line := fmt.Sprintf("%d %s %s %s %s%s", w.number, now(), w.node, w.boot, w.pod, words)
	if _, err := w.file.WriteString(line + "\n"); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.number++
	_, err := fmt.Fprintf(w.said, "durable %s %s\n", now(), line)
	return err
}

// found describes what is in the file before this life's first line.
func found(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := bytes.TrimSuffix(data, []byte("\n"))
	last := string(text[bytes.LastIndexByte(text, '\n')+1:])
	return fmt.Sprintf(" found %d lines, last %q", bytes.Count(data, []byte("\n")), last), nil
}

func run() error {
	path := flag.String("file", "/data/log", "the file to append to")
	bootFile := flag.String("boot-file", "/proc/sys/kernel/random/boot_id", "where the machine's boot id is")
	witness := flag.String("witness", "", "a folder for what is said to be durable, besides the output")
	interval := flag.Duration("interval", 100*time.Millisecond, "pause between two lines")
	deaf := flag.Bool("deaf", false, "ignore SIGTERM")
	flag.Parse()
	w := &writer{node: os.Getenv("NODE_NAME"), pod: os.Getenv("POD_UID"), said: os.Stdout}
	for name, value := range map[string]string{"NODE_NAME": w.node, "POD_UID": w.pod} {
		if value == "" || strings.ContainsAny(value, " \n") {
			return fmt.Errorf("%s is %q; set it to one word", name, value)
		}
	}
	boot, err := os.ReadFile(*bootFile)
	if err != nil {
		return err
	}
	w.boot = strings.TrimSpace(string(boot))
	stop := make(chan os.Signal, 1)
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(stop, syscall.SIGTERM)
	}
	if *witness != "" {
		name := filepath.Join(*witness, os.Getenv("POD_NAME")+"_"+w.pod)
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		w.said = io.MultiWriter(file, os.Stdout)
	}
	if w.file, err = os.OpenFile(*path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err != nil {
		return err
	}
	words, err := found(*path)
	for err == nil {
		if err = w.write(words); err != nil {
			break
		}
		words = ""
		select {
		case <-stop:
			return nil
		case <-time.After(*interval):
		}
	}
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}
