package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"moonfence.invalid/csi-driver/san"
)

// serve listens on a Unix socket, in place of one that a killed process has left.
func serve(socket string, register func(*grpc.Server)) (*grpc.Server, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(answer))
	register(server)
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Fatalf("serve %s: %v", socket, err)
		}
	}()
	return server, nil
}

// answer logs each call that changes something and gives errors the code that the specification wants.
func answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if err != nil {
		err = withCode(err)
	}
	if about, ok := request.(interface{ GetVolumeId() string }); ok || err != nil {
		volume := ""
		if ok {
			volume = about.GetVolumeId()
		}
		log.Printf("%s %s: %v", filepath.Base(info.FullMethod), volume, status.Convert(err).Message())
	}
	return response, err
}

func withCode(err error) error {
	code := codes.Internal
	for known, its := range map[error]codes.Code{
		san.ErrInvalid:   codes.InvalidArgument,
		san.ErrNoVolume:  codes.NotFound,
		san.ErrElsewhere: codes.FailedPrecondition,
		san.ErrAttached:  codes.FailedPrecondition,
		san.ErrDetached:  codes.FailedPrecondition,
		san.ErrStranger:  codes.FailedPrecondition,
		san.ErrRefused:   codes.PermissionDenied,
	} {
		if errors.Is(err, known) {
			code = its
		}
	}
	if from, ok := status.FromError(err); ok {
		return from.Err()
	}
	return status.Error(code, err.Error())
}

// checkCapability refuses what this driver does not have: raw block, other file systems, more than one node.
func checkCapability(capability *csi.VolumeCapability) error {
	if capability.GetMount() == nil {
		return fmt.Errorf("%w: volume mode; this driver has volumeMode Filesystem only", san.ErrInvalid)
	}
	if kind := capability.GetMount().GetFsType(); kind != "" && kind != "ext4" {
		return fmt.Errorf("%w: file system %q; this driver has ext4 only", san.ErrInvalid, kind)
	}
	switch mode := capability.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return nil
	default:
		return fmt.Errorf("%w: access mode %v; this driver attaches a volume to one node", san.ErrInvalid, mode)
	}
}

// identity is the CSI service that controller and node have in common.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (
	*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	capability := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: service}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{capability}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// registrar tells the kubelet where the node's socket is.
type registrar struct {
	registration.UnimplementedRegistrationServer
	socket string
}

func serveRegistration(folder, socket string) (*grpc.Server, error) {
	return serve(filepath.Join(folder, driverName+"-reg.sock"), func(server *grpc.Server) {
		registration.RegisterRegistrationServer(server, &registrar{socket: socket})
	})
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, result *registration.RegistrationStatus) (
	*registration.RegistrationStatusResponse, error) {
	if !result.PluginRegistered {
		// Whoever started this process starts it again, and the kubelet then tries anew.
		log.Fatalf("the kubelet refuses this driver: %s", result.Error)
	}
	log.Print("registered with the kubelet")
	return &registration.RegistrationStatusResponse{}, nil
}
