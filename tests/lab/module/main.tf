# Machines of the lab's cloud, made by `terraform apply` as a provider would make them.

variable "cloud" {
  description = "URL of the cloud's API."
  type        = string
}

variable "python" {
  description = "Interpreter of client.py, which talks to the API."
  type        = string
}

variable "network" {
  description = "The /24 that the machines live in."
  type        = string
}

variable "machines" {
  description = "Names of the machines; a machine's place in the list gives its address."
  type        = list(string)
}

variable "port" {
  type    = number
  default = 22
}

variable "host_vars" {
  description = "More inventory variables for every host."
  type        = map(string)
  default     = {}
}

resource "terraform_data" "machine" {
  for_each = { for index, name in var.machines : name => cidrhost(var.network, 10 + index) }

  input = {
    url    = "${var.cloud}/machines/${each.key}"
    python = var.python
  }
  triggers_replace = [each.value, var.port]

  provisioner "local-exec" {
    command = "${var.python} ${path.module}/client.py POST ${var.cloud}/machines \"$BODY\""
    environment = {
      BODY = jsonencode({ name = each.key, address = each.value, port = var.port })
    }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "${self.input.python} ${path.module}/client.py DELETE ${self.input.url}"
  }
}

output "ansible_inventory" {
  value = {
    all = {
      children = {
        web = {
          hosts = {
            for index, name in var.machines : name => merge(var.host_vars, {
              ansible_host = cidrhost(var.network, 10 + index)
              ansible_port = var.port
              ansible_user = "root"
            })
          }
        }
      }
    }
  }
  depends_on = [terraform_data.machine]
}
