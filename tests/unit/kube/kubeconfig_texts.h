#pragma once

// Kubeconfigs for the tests, in the style of the tools that write them. All data is made up.

#include <string>

#include "kube/text/base64.h"

namespace moonfence::kube::texts {

inline std::string pem(const std::string& label, const std::string& what) {
  return "-----BEGIN " + label + "-----\n" + base64_encoded(what) + "\n-----END " + label +
         "-----\n";
}
inline std::string certificate(const std::string& what) {
  return pem("CERTIFICATE", what);
}
inline std::string key(const std::string& what) {
  return pem("EC PRIVATE KEY", what);
}

// One context "c" over cluster "k" and user "u" with the given fields, each line indented by four.
inline std::string simple(const std::string& cluster_fields, const std::string& user_fields) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "clusters:\n- name: k\n  cluster:\n" +
         cluster_fields +
         "contexts:\n- name: c\n  context: {cluster: k, user: u}\nusers:\n- name: u\n" +
         (user_fields.empty() ? "  user: {}\n" : "  user:\n" + user_fields);
}

inline const std::string kHttps = "    server: https://api.example:6443\n";

// A minimal file whose server tells which file was read.
inline std::string pointing_at(const std::string& host) {
  return simple("    server: https://" + host + "\n", "    token: t-" + host + "\n");
}

inline std::string kind() {
  return R"(apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: )" +
         base64_encoded(certificate("kind ca")) + R"(
    server: https://127.0.0.1:43210
  name: kind-kind
contexts:
- context:
    cluster: kind-kind
    user: kind-kind
  name: kind-kind
current-context: kind-kind
kind: Config
preferences: {}
users:
- name: kind-kind
  user:
    client-certificate-data: )" +
         base64_encoded(certificate("kind cert")) + R"(
    client-key-data: )" +
         base64_encoded(key("kind key")) + "\n";
}

inline std::string kubeadm() {
  return R"(apiVersion: v1
clusters:
- cluster:
    certificate-authority: pki/ca.crt
    server: https://[fd00::10]:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    namespace: storage
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {}
users:
- name: kubernetes-admin
  user:
    client-certificate: /var/lib/kubelet/pki/current.pem
    client-key: /var/lib/kubelet/pki/current.pem
)";
}

inline std::string eks() {
  return R"(apiVersion: v1
clusters:
- cluster:
    server: https://0123456789ABCDEF.gr7.eu-central-1.eks.example
    certificate-authority-data: )" +
         base64_encoded(certificate("eks ca")) + R"(
  name: arn:aws:eks:eu-central-1:123456789012:cluster/prod
contexts:
- context:
    cluster: arn:aws:eks:eu-central-1:123456789012:cluster/prod
    user: arn:aws:eks:eu-central-1:123456789012:cluster/prod
  name: prod
current-context: prod
kind: Config
users:
- name: arn:aws:eks:eu-central-1:123456789012:cluster/prod
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - --region
      - eu-central-1
      - eks
      - get-token
      - --cluster-name
      - prod
      command: aws
      env:
      - name: AWS_PROFILE
        value: fencing
)";
}

inline std::string gke() {
  return R"(apiVersion: v1
clusters:
- cluster: {server: "https://203.0.113.7", certificate-authority-data: )" +
         base64_encoded(certificate("gke ca")) + R"(}
  name: gke_p_z_c
contexts:
- {context: {cluster: gke_p_z_c, user: gke_p_z_c}, name: gke_p_z_c}
current-context: gke_p_z_c
kind: Config
users:
- name: gke_p_z_c
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: gke-gcloud-auth-plugin
      installHint: "Install \e[31mgke-gcloud-auth-plugin\a for use with kubectl"
      provideClusterInfo: true
      interactiveMode: IfAvailable
)";
}

inline std::string rancher() {
  return R"(apiVersion: v1
kind: Config
clusters:
- name: "prod"
  cluster:
    server: "https://rancher.example/k8s/clusters/c-m-abcdefgh/"
users:
- name: "prod"
  user:
    token: "kubeconfig-user-abc:madeup"
contexts:
- name: "prod"
  context:
    user: "prod"
    cluster: "prod"
current-context: "prod"
)";
}

}  // namespace moonfence::kube::texts
