"""Certificates, keys, tokens and kubeconfigs of the test clusters that `tools/kube/start` runs."""

import base64
import os
import secrets
import ssl
import subprocess

NON_ADMIN_USER = "basalt-test"
NON_ADMIN_GROUP = "basalt-testers"


class Failure(Exception):
    """Something that the caller has to be told; never a traceback."""


def write_file(path, text):
    """Replaces the file at once, so that a reader sees the old or the new text. The umask makes it private."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


class Credentials:
    """The certificates and keys of one cluster. They are kept when a folder is used again."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.ca_key = self.path("ca.crt"), self.path("ca.key")
        self.server, self.server_key = self.path("server.crt"), self.path("server.key")
        self.admin, self.admin_key = self.path("admin.crt"), self.path("admin.key")
        self.service_account_key = self.path("service-account.key")
        self.service_account_public = self.path("service-account.pub")
        self.token, self.token_table = self.path("user.token"), self.path("tokens.csv")

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self):
        complete = self.path("complete")
        if os.path.exists(complete):
            return
        os.makedirs(self.folder, exist_ok=True)
        self.certificate(self.ca, self.ca_key, "/CN=basalt-test-ca", "basicConstraints=critical,CA:TRUE",
                         "keyUsage=critical,keyCertSign,cRLSign")
        # One certificate serves both servers. etcd's HTTP gateway presents it to etcd itself, hence clientAuth.
        self.certificate(self.server, self.server_key, "/CN=basalt-test-server", "basicConstraints=critical,CA:FALSE",
                         "keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth,clientAuth",
                         "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:kubernetes.default.svc,IP:10.0.0.1", signed=True)
        self.certificate(self.admin, self.admin_key, "/O=system:masters/CN=basalt-admin",
                         "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature",
                         "extendedKeyUsage=clientAuth", signed=True)
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.service_account_key)
        openssl("pkey", "-in", self.service_account_key, "-pubout", "-out", self.service_account_public)
        token = secrets.token_urlsafe(24)
        write_file(self.token, token + "\n")
        write_file(self.token_table, f'{token},{NON_ADMIN_USER},{NON_ADMIN_USER},"{NON_ADMIN_GROUP}"\n')
        write_file(complete, "")

    def certificate(self, certificate, key, subject, *extensions, signed=False):
        # The configuration is empty so that nothing of the machine's own openssl.cnf gets into our certificates.
        arguments = ["req", "-x509", "-config", "/dev/null", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-days", "3650", "-subj", subject, "-keyout", key, "-out", certificate]
        for extension in extensions:
            arguments += ["-addext", extension]
        if signed:
            arguments += ["-CA", self.ca, "-CAkey", self.ca_key]
        openssl(*arguments)

    def client_context(self):
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.admin, self.admin_key)
        return context

    def admin_kubeconfig(self, server):
        return kubeconfig_text(server, self.ca, "admin", {
            "client-certificate-data": base64_of(self.admin), "client-key-data": base64_of(self.admin_key)})

    def user_kubeconfig(self, server):
        with open(self.token, encoding="ascii") as file:
            return kubeconfig_text(server, self.ca, NON_ADMIN_USER, {"token": file.read().strip()})


def openssl(*arguments):
    try:
        done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    except FileNotFoundError:
        raise Failure("openssl is not installed (Debian package openssl)") from None
    if done.returncode != 0:
        raise Failure(f"openssl {arguments[0]} failed:\n{done.stdout.decode('utf-8', 'replace')}")


def base64_of(path):
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode("ascii")


def kubeconfig_text(server, ca, user, credentials):
    lines = "".join(f"    {name}: {value}\n" for name, value in credentials.items())
    return f"""apiVersion: v1
kind: Config
current-context: {user}
clusters:
- name: basalt-test
  cluster:
    server: {server}
    certificate-authority-data: {base64_of(ca)}
contexts:
- name: {user}
  context:
    cluster: basalt-test
    user: {user}
    namespace: default
users:
- name: {user}
  user:
{lines}"""
