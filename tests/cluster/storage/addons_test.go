package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clientgo "k8s.io/client-go/testing"

	"moonfence.invalid/csi-driver/san"
)

// cluster is an API server without its rules: no schema, and nobody but a test counts generations.
type cluster struct {
	t      *testing.T
	client *fake.FakeDynamicClient
	addons *addons
}

func object(api, kind, name, uid string, fields map[string]any) *unstructured.Unstructured {
	fields["apiVersion"], fields["kind"] = api, kind
	made := &unstructured.Unstructured{Object: fields}
	made.SetName(name)
	made.SetUID(types.UID(uid))
	made.SetGeneration(1)
	return made
}

func fence(name, uid, class string, cidrs ...any) *unstructured.Unstructured {
	return object(addonsGroup+"/v1alpha1", "NetworkFence", name, uid, map[string]any{
		"spec": map[string]any{"networkFenceClassName": class, "fenceState": "Fenced", "cidrs": cidrs}})
}

func csiNode(name string, made time.Time, drivers ...any) *unstructured.Unstructured {
	node := object("storage.k8s.io/v1", "CSINode", name, "node-"+name, map[string]any{"spec": map[string]any{"drivers": drivers}})
	node.SetCreationTimestamp(metav1.NewTime(made))
	return node
}

func newCluster(t *testing.T) *cluster {
	storage, err := san.Open(t.TempDir())
	must(t, err)
	for node, address := range addresses {
		must(t, storage.Login(node, address))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		fenceKind: "NetworkFenceList", classKind: "NetworkFenceClassList", clientKind: "CSIAddonsNodeList",
		csiKind: "CSINodeList"})
	client.PrependReactor("create", "csiaddonsnodes", func(act clientgo.Action) (bool, runtime.Object, error) {
		made := act.(clientgo.CreateAction).GetObject().(*unstructured.Unstructured)
		if when := made.GetCreationTimestamp(); when.IsZero() {
			made.SetCreationTimestamp(metav1.Now())
		}
		return false, nil, nil
	})
	c := &cluster{t, client, &addons{storage, client, map[types.UID]int64{}}}
	for class, provisioner := range map[string]any{"ours": driverName, "theirs": "rbd.csi.ceph.com"} {
		c.create(classKind, object(addonsGroup+"/v1alpha1", "NetworkFenceClass", class, "class-"+class,
			map[string]any{"spec": map[string]any{"provisioner": provisioner}}))
	}
	return c
}

func (c *cluster) create(kind schema.GroupVersionResource, made *unstructured.Unstructured) {
	c.t.Helper()
	_, err := c.client.Resource(kind).Create(context.Background(), made, metav1.CreateOptions{})
	must(c.t, err)
}

func (c *cluster) update(made *unstructured.Unstructured) {
	c.t.Helper()
	made.SetGeneration(made.GetGeneration() + 1)
	_, err := c.client.Resource(fenceKind).Update(context.Background(), made, metav1.UpdateOptions{})
	must(c.t, err)
}

func (c *cluster) look() {
	c.t.Helper()
	_, err := c.addons.look(context.Background())
	must(c.t, err)
}

func (c *cluster) fence(name string) *unstructured.Unstructured {
	c.t.Helper()
	found, err := c.client.Resource(fenceKind).Get(context.Background(), name, metav1.GetOptions{})
	must(c.t, err)
	return found
}

func (c *cluster) says(name, result, message string) {
	c.t.Helper()
	found := c.fence(name)
	if text(*found, "status", "result") != result || text(*found, "status", "message") != message {
		c.t.Errorf("%s: status %v", name, found.Object["status"])
	}
}

func (c *cluster) refuses(node string) bool {
	c.t.Helper()
	address, err := c.addons.storage.Address(node)
	must(c.t, err)
	refused, err := c.addons.storage.Refuses(address)
	must(c.t, err)
	return refused
}

func (c *cluster) told(node string) *unstructured.Unstructured {
	c.t.Helper()
	found, err := c.client.Resource(clientKind).Namespace(addonsNamespace).Get(
		context.Background(), node+"-"+driverName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(c.t, err)
	return found
}

func TestANetworkFenceIsCarriedOutAndLifted(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("f", "1", "ours", "10.78.0.11/32"))
	c.look()
	c.says("f", "Succeeded", fencedMessage)
	if !c.refuses("node-1") || c.refuses("node-2") {
		t.Error("not this node, or not it alone, is refused")
	}
	found := c.fence("f")
	if fmt.Sprint(found.GetFinalizers()) != "["+fenceFinalizer+"]" {
		t.Errorf("finalizers %v", found.GetFinalizers())
	}
	must(t, unstructured.SetNestedField(found.Object, "Unfenced", "spec", "fenceState"))
	c.update(found)
	c.look()
	c.says("f", "Succeeded", unfencedMessage)
	if c.refuses("node-1") {
		t.Error("the node is refused still")
	}
}

// Each generation is carried out once: what the storage was told otherwise since then stays.
func TestAGenerationIsCarriedOutOnce(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("f", "1", "ours", "10.78.0.11/32"))
	c.look()
	must(t, c.addons.storage.Admit("10.78.0.11/32"))
	c.look()
	c.says("f", "Succeeded", fencedMessage)
	if c.refuses("node-1") {
		t.Error("it was carried out twice")
	}
}

func TestADeletionLiftsNothing(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("f", "1", "ours", "10.78.0.11/32"))
	c.look()
	found := c.fence("f")
	now := metav1.Now()
	found.SetDeletionTimestamp(&now)
	found.SetFinalizers(append(found.GetFinalizers(), "example.com/other"))
	c.update(found)
	c.look()
	if finalizers := fmt.Sprint(c.fence("f").GetFinalizers()); finalizers != "[example.com/other]" {
		t.Errorf("finalizers %v", finalizers)
	}
	if !c.refuses("node-1") {
		t.Error("the deletion has lifted it")
	}
}

func TestWhatIsNotForThisStorageHasNoResult(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("theirs", "1", "theirs", "10.78.0.11/32"))
	c.create(fenceKind, fence("nobody's", "2", "missing", "10.78.0.11/32"))
	c.look()
	c.says("theirs", "", "")
	c.says("nobody's", "", "")
	if c.refuses("node-1") {
		t.Error("the node is refused")
	}
}

func TestARangeThatIsNoneFailsAndIsTriedAgain(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("f", "1", "ours", "10.78.0.11"))
	c.create(fenceKind, fence("g", "2", "ours", "10.78.0.12/32"))
	c.look()
	if text(*c.fence("f"), "status", "result") != "Failed" {
		t.Errorf("status %v", c.fence("f").Object["status"])
	}
	c.says("g", "Succeeded", fencedMessage) // it does not keep another one from its turn

	refused := filepath.Join(c.addons.storage.Image(""), "..", ".refused.json")
	must(t, os.WriteFile(refused, []byte("not JSON"), 0o600))
	c.create(fenceKind, fence("h", "3", "ours", "10.78.0.11/32"))
	c.look()
	if text(*c.fence("h"), "status", "result") != "Failed" {
		t.Errorf("status %v", c.fence("h").Object["status"])
	}
	must(t, os.Remove(refused))
	c.look()
	c.says("h", "Succeeded", fencedMessage)
}

// A result that could not be written is written at the next look.
func TestAResultThatWasNotWrittenIsWrittenLater(t *testing.T) {
	c := newCluster(t)
	c.create(fenceKind, fence("f", "1", "ours", "10.78.0.11/32"))
	down := true
	c.client.PrependReactor("patch", "networkfences", func(act clientgo.Action) (bool, runtime.Object, error) {
		return down && act.GetSubresource() == "status", nil, errors.New("the API server is down")
	})
	if _, err := c.addons.look(context.Background()); err == nil {
		t.Error("the look has no error")
	}
	c.says("f", "", "")
	down = false
	c.look()
	c.says("f", "Succeeded", fencedMessage)
}

func TestTheAddressOfEachNodeWithTheDriverIsTold(t *testing.T) {
	c := newCluster(t)
	ours, made := map[string]any{"name": driverName}, time.Now().Add(-time.Hour).Truncate(time.Second)
	c.create(csiKind, csiNode("node-1", made, map[string]any{"name": "other"}, ours))
	c.create(csiKind, csiNode("node-2", made, map[string]any{"name": "other"}))
	c.look()
	told := c.told("node-1")
	if told == nil || c.told("node-2") != nil {
		t.Fatal("not of this node, or not of it alone")
	}
	if told.GetAnnotations()[classesAnnotated] != `["ours"]` || text(*told, "spec", "driver", "nodeID") != "node-1" {
		t.Errorf("told %v", told.Object)
	}
	status := fmt.Sprint(told.Object["status"].(map[string]any)["networkFenceClientStatus"])
	if status != "[map[ClientDetails:[map[cidrs:[10.78.0.11/32] id:san]] networkFenceClassName:ours]]" {
		t.Errorf("status %s", status)
	}

	// The machine logs in from another address, and there is one class more.
	must(t, c.addons.storage.Login("node-1", "fd00::11"))
	c.create(classKind, object(addonsGroup+"/v1alpha1", "NetworkFenceClass", "also", "class-also",
		map[string]any{"spec": map[string]any{"provisioner": driverName}}))
	c.look()
	told = c.told("node-1")
	status = fmt.Sprint(told.Object["status"].(map[string]any)["networkFenceClientStatus"])
	if told.GetAnnotations()[classesAnnotated] != `["also","ours"]` || status !=
		"[map[ClientDetails:[map[cidrs:[fd00::11/128] id:san]] networkFenceClassName:also]"+
			" map[ClientDetails:[map[cidrs:[fd00::11/128] id:san]] networkFenceClassName:ours]]" {
		t.Errorf("told %v", told.Object)
	}
}

// An older one tells of another machine that had the name.
func TestTheAddressGoesWithTheNode(t *testing.T) {
	c := newCluster(t)
	ours := map[string]any{"name": driverName}
	old := object(addonsGroup+"/v1alpha1", "CSIAddonsNode", "node-1-"+driverName, "old", map[string]any{
		"spec": map[string]any{"driver": map[string]any{"name": driverName, "nodeID": "node-1"}}})
	old.SetNamespace(addonsNamespace)
	old.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-2 * time.Hour)))
	_, err := c.client.Resource(clientKind).Namespace(addonsNamespace).Create(context.Background(), old, metav1.CreateOptions{})
	must(t, err)
	c.create(csiKind, csiNode("node-1", time.Now().Add(-time.Hour), ours))
	c.look()
	if told := c.told("node-1"); told != nil {
		t.Errorf("it is still there: %v", told.Object)
	}
	c.look()
	if c.told("node-1") == nil {
		t.Error("it was not made anew")
	}
	must(t, c.client.Resource(csiKind).Delete(context.Background(), "node-1", metav1.DeleteOptions{}))
	c.look()
	if c.told("node-1") != nil {
		t.Error("it outlives the node")
	}
}
