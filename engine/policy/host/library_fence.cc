// fence.*: verdicts, and requests for what has to be read first.

#include <array>

#include "policy/host/request_values.h"
#include "policy/host/verdicts.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

constexpr std::array<HostFunction, 16> kFence = {{
    {"skip", fence_skip, "(reason: string): Verdict", "No reason to act on this pod."},
    {"forbid", fence_forbid, "(reason: string): Verdict",
     "Nobody may act on this pod; asked again every minute. The policy becomes a guard."},
    {"wait", fence_wait, "(reason: string, seconds?: number): Verdict",
     "Look again after 10 s, or 1 s to 1 h as given."},
    {"delete_pod", fence_delete_pod, "(reason: string, options?: DeleteOptions): Verdict",
     "Delete the pod with grace period 0 and a UID precondition."},
    {"delete_pod_and_attachments", fence_delete_pod_and_attachments,
     "(reason: string, volumes?: Volume[]|ReleaseOptions, options?: ReleaseOptions): Verdict",
     "Delete the pod; once it is gone, the attachments of these volumes, of all CSI volumes "
     "without them."},
    {"delete_attachments", fence_delete_attachments,
     "(reason: string, volumes: Volume[], options?: AttachmentOptions): Verdict",
     "Delete the attachments of these volumes while the pod is still there."},
    {"proceed", fence_proceed, "(reason: string): NodeVerdict", "The node's pods may be judged."},
    {"hold", fence_hold, "(reason: string, seconds?: number): Verdict|NodeVerdict",
     "Nobody may act for now on this pod, or in node() on the pods that the policy does not skip; "
     "ask again after 30 s, or 1 s to 1 h as given, which node() has to."},
    {"taint_out_of_service", fence_taint_out_of_service,
     "(reason: string, options?: ProofOptions): NodeVerdict",
     "Mark the node, so that Kubernetes evicts every pod of it; needs the binding's allow."},
    {"http", fence_http, "(endpoint: string, path: string, ...: string|integer|table): Request",
     "A GET of an endpoint that the engine's configuration names. What follows the path are its "
     "further parts, and last a table with the query; each is escaped."},
    {"get", fence_get,
     "(apiVersion: string, resource: string, namespace: string, name: string): Request",
     "One object of the Kubernetes API that the engine's configuration allows; never a secret."},
    {"list", fence_list,
     "(apiVersion: string, resource: string, namespace?: string, options?: ListOptions): Request",
     "All objects of one kind that the engine's configuration allows, of all namespaces without "
     "one or with \"\": body.items. Answered whole, at most 1000 objects and 512 KiB, or not at "
     "all."},
    {"post", fence_post,
     "(endpoint: string, path: string, body: table, ...: string|integer|table): Request",
     "What switches a machine off, in off() of a fencer: a POST of a flat table as JSON. What "
     "follows it is as with fence.http."},
    {"create", fence_create,
     "(apiVersion: string, resource: string, namespace: string, object: table): Request",
     "What isolates a machine or switches it off, in isolate() or off() of a fencer: an object of "
     "a "
     "custom resource that the engine's configuration allows. It must have kind and "
     "metadata.name."},
    {"annotate", fence_annotate,
     "(apiVersion: string, resource: string, namespace: string, name: string, uid: string, "
     "annotations: table<string, string>): Request",
     "The same by annotations that an object of such a kind gets."},
    {"try", fence_try, "(request: Request): Request",
     "The same request of fence.http, of which a failure is an answer too: it has error, message "
     "and "
     "since in place of a body. Without it nothing is judged while the request fails."},
}};

}  // namespace

const Library& fence_library() {
  static constexpr Library kLibrary{.name = "fence", .functions = kFence};
  return kLibrary;
}

}  // namespace moonfence::policy
