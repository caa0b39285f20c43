package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"moonfence.invalid/csi-driver/loop"
	"moonfence.invalid/csi-driver/san"
)

type node struct {
	csi.UnimplementedNodeServer
	storage *san.SAN
	name    string
}

// serveNode logs in to the storage, from an address, and serves.
func serveNode(storage *san.SAN, name, address, socket string) (*grpc.Server, error) {
	if err := storage.Login(name, address); err != nil {
		return nil, err
	}
	return serve(socket, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, identity{})
		csi.RegisterNodeServer(server, &node{storage: storage, name: name})
	})
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (
	*csi.NodeGetCapabilitiesResponse, error) {
	rpc := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	capability := &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{capability}}, nil
}

// NodeStageVolume mounts the volume once for all pods of this node.
func (n *node) NodeStageVolume(_ context.Context, request *csi.NodeStageVolumeRequest) (
	*csi.NodeStageVolumeResponse, error) {
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	volume, staging := request.GetVolumeId(), request.GetStagingTargetPath()
	if _, err := n.storage.Volume(volume); err != nil {
		return nil, err
	}
	attachment, err := n.storage.Attachment(volume, n.name)
	if err != nil {
		return nil, err
	}
	if err := n.checkAdmitted(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return nil, err
	}
	mounted, err := loop.TagOfMounted(staging)
	if err == nil && mounted == attachment.ID {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	// What is mounted there belongs to an attachment that is over.
	if err := unmount(staging); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, mount(attachment, staging)
}

// checkAdmitted says what the storage would answer. That nothing of a refused node arrives there does not depend on
// this question: its ways are dead (san.Refuse).
func (n *node) checkAdmitted() error {
	address, err := n.storage.Address(n.name)
	if err != nil {
		return err
	}
	refused, err := n.storage.Refuses(address)
	if refused {
		return fmt.Errorf("%w: %s, by its address %s", san.ErrRefused, n.name, address)
	}
	return err
}

// mount binds a second loop device, the node's own, to the one that the storage gave it. The first is where the
// storage can fence (loop.Fence); the second goes away with the last mount, also when that goes with its
// machine. Direct I/O between the two leaves nothing in a place that a fence would not stop.
//
// No fsck before the mount: it would mend in silence what the tests look for.
func mount(attachment san.Attachment, staging string) error {
	way, err := loop.Open(attachment.Device, attachment.ID)
	if err != nil {
		return err
	}
	defer way.Close()
	own, err := loop.Bind(way.Path, attachment.ID, loop.Options{Direct: true, UntilLastClose: true})
	if err != nil {
		return err
	}
	defer own.Close()
	if err := unix.Mount(own.Path, staging, "ext4", unix.MS_NOATIME, "errors=remount-ro"); err != nil {
		return fmt.Errorf("mount %s, on %s, at %s: %w (the kernel log says why)", own.Path, way.Path, staging, err)
	}
	return nil
}

// NodeUnstageVolume ends the node's mount. What was not written out yet is written now, unless a fence stops it.
func (n *node) NodeUnstageVolume(_ context.Context, request *csi.NodeUnstageVolumeRequest) (
	*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, unmount(request.GetStagingTargetPath())
}

// NodePublishVolume shows the staged volume to one pod. Like most drivers it does not ask the storage whether
// the staged volume is attached still.
func (n *node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (
	*csi.NodePublishVolumeResponse, error) {
	if err := checkCapability(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	staging, target := request.GetStagingTargetPath(), request.GetTargetPath()
	staged, err := loop.TagOfMounted(staging)
	if err != nil {
		return nil, err
	}
	if staged == "" {
		return nil, fmt.Errorf("%w: nothing is staged at %s", san.ErrDetached, staging)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, err
	}
	if published, err := loop.TagOfMounted(target); err == nil && published == staged {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := unix.Mount(staging, target, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("bind %s at %s: %w", staging, target, err)
	}
	if request.GetReadonly() {
		if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return nil, errors.Join(fmt.Errorf("make %s read-only: %w", target, err), unmount(target))
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes the volume from one pod.
func (n *node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (
	*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if err := unmount(target); err != nil {
		return nil, err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// unmount takes away all that is mounted at a path. A path without a mount, or none at all, is fine.
func unmount(path string) error {
	for {
		err := unix.Unmount(filepath.Clean(path), unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}
