# The machine image. From this folder, with a wheelhouse made on the same system (packer/wheelhouse.sh --gpu wheels):
#   packer init s4weights.pkr.hcl
#   packer build -var wheelhouse=../wheels s4weights.pkr.hcl
# There is no image where the self-test on the builder's GPU was not bit-exact, or ran without the GPU.

packer {
  required_version = ">= 1.9.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0, < 2.0.0"
    }
  }
}

variable "wheelhouse" {
  type        = string
  description = "Folder of wheels from wheelhouse.sh."
}

variable "region" {
  type        = string
  default     = "us-east-1"
  description = "Where the image is built."
}

variable "os" {
  type        = string
  default     = "ubuntu-22.04"
  description = "Part of the base image's name. The 22.04 line gets patches until 2027-04-30; the next is ubuntu-24.04."

  validation {
    condition     = contains(["ubuntu-22.04", "ubuntu-24.04"], var.os)
    error_message = "The value of os must be ubuntu-22.04 or ubuntu-24.04."
  }
}

variable "base_ami" {
  type        = string
  default     = ""
  description = "An image to build on; empty: Amazon's newest with the open NVIDIA driver."
}

variable "python" {
  type        = string
  default     = "python3.12"
  description = "What runs the service; brought from the deadsnakes archive where the system is older."
}

variable "instance_type" {
  type        = string
  default     = "g6.xlarge"
  description = "The builder: its GPU is the one that the self-test runs on."
}

variable "subnet_id" {
  type        = string
  default     = ""
  description = "Empty: the default VPC's."
}

variable "kms_key_id" {
  type        = string
  default     = "alias/aws/ebs"
  description = "Encrypts the image's disk."
}

data "amazon-parameterstore" "base" {
  name   = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-${var.os}/latest/ami-id"
  region = var.region
}

locals {
  base  = var.base_ami != "" ? var.base_ami : data.amazon-parameterstore.base.value
  stamp = formatdate("YYYYMMDD-hhmmss", timestamp())
  here  = path.root
}

source "amazon-ebs" "s4weights" {
  ami_name        = "s4weights-${local.stamp}"
  ami_description = "s4weights on ${var.os}; base ${local.base}"
  region          = var.region
  source_ami      = local.base
  instance_type   = var.instance_type
  subnet_id       = var.subnet_id
  ssh_username    = "ubuntu"

  # Nobody but the session manager reaches the builder; no key pair and no open port are made in the account.
  communicator              = "ssh"
  ssh_interface             = "session_manager"
  temporary_key_pair_type   = "ed25519"
  ssh_clear_authorized_keys = true
  temporary_iam_instance_profile_policy_document {
    Version = "2012-10-17"
    Statement {
      Effect   = "Allow"
      Action   = ["ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel", "ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel"]
      Resource = ["*"]
    }
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  imds_support = "v2.0"

  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_type           = "gp3"
    volume_size           = 80
    throughput            = 250
    iops                  = 3000
    encrypted             = true
    kms_key_id            = var.kms_key_id
    delete_on_termination = true
  }

  tags = {
    Name    = "s4weights"
    Base    = local.base
    System  = var.os
    Builder = var.instance_type
  }
  run_tags = {
    Name = "s4weights image builder"
  }
}

build {
  sources = ["source.amazon-ebs.s4weights"]

  provisioner "shell" {
    inline = ["cloud-init status --wait", "mkdir -p /tmp/s4weights/packer /tmp/s4weights/wheels"]
  }

  provisioner "file" {
    source      = "${local.here}/"
    destination = "/tmp/s4weights/packer"
  }

  provisioner "file" {
    source      = "${var.wheelhouse}/"
    destination = "/tmp/s4weights/wheels"
  }

  provisioner "shell" {
    execute_command = "sudo env {{ .Vars }} bash '{{ .Path }}'"
    script          = "${local.here}/image/system.sh"
    env             = { PYTHON = var.python }
  }

  provisioner "shell" {
    execute_command = "sudo env {{ .Vars }} bash '{{ .Path }}'"
    inline          = ["/tmp/s4weights/packer/install.sh --gpu /tmp/s4weights/wheels", "systemctl enable s4weights-nvidia.service"]
    env             = { PYTHON = var.python }
  }

  provisioner "shell" {
    inline = ["sudo /opt/s4weights/bin/python /tmp/s4weights/packer/image/sbom.py /usr/local/share/s4weights/sbom.cdx.json"]
  }

  # Ends the build where it fails: SELFTEST_FLAGS is --require-gpu in this image.
  provisioner "shell" {
    execute_command = "sudo bash '{{ .Path }}'"
    script          = "${local.here}/image/selftest.sh"
  }

  # Last: what follows it would be on the image.
  provisioner "shell" {
    execute_command = "sudo bash '{{ .Path }}'"
    script          = "${local.here}/image/clean.sh"
  }

  post-processor "manifest" {
    output     = "s4weights-image.json"
    strip_path = true
  }
}
