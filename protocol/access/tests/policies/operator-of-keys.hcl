operator {
  capabilities = ["keyring-read", "keyring-rotate"]
}

plugin {
  policy = "read"
}

quota {
  policy = "write"
}

sentinel {
  policy = "write"
}
