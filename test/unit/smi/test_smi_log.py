# SPDX-License-Identifier: Apache-2.0
"""-q -x: what telegraf, netdata and others parse."""

import re
import xml.etree.ElementTree as ET

import pytest

# Paths below <gpu> that telegraf's and netdata's readers use, with the shape of the value.
NUMBER = r"-?\d+"
PATHS = {
    "product_name": r".+",
    "product_architecture": r"Hopper",
    "performance_state": r"P\d+",
    "uuid": r"GPU-[0-9a-f-]{36}",
    "serial": r"\d+",
    "vbios_version": r".+",
    "compute_mode": r"Default",
    "display_active": r"Disabled",
    "fan_speed": r"N/A",
    "fb_memory_usage/total": NUMBER + " MiB",
    "fb_memory_usage/reserved": NUMBER + " MiB",
    "fb_memory_usage/used": NUMBER + " MiB",
    "fb_memory_usage/free": NUMBER + " MiB",
    "bar1_memory_usage/total": NUMBER + " MiB",
    "bar1_memory_usage/used": NUMBER + " MiB",
    "ecc_mode/current_ecc": r"Enabled",
    "remapped_rows/remapped_row_corr": NUMBER,
    "remapped_rows/remapped_row_unc": NUMBER,
    "remapped_rows/remapped_row_pending": r"No",
    "remapped_rows/remapped_row_failure": r"No",
    "temperature/gpu_temp": NUMBER + " C",
    "temperature/memory_temp": NUMBER + " C",
    "utilization/gpu_util": NUMBER + " %",
    "utilization/memory_util": NUMBER + " %",
    "utilization/encoder_util": NUMBER + " %",
    "utilization/decoder_util": NUMBER + " %",
    "pci/pci_bus_id": r"0{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": r"5",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": r"5",
    "pci/pci_gpu_link_info/link_widths/current_link_width": r"16x",
    "pci/tx_util": NUMBER + " KB/s",
    "pci/rx_util": NUMBER + " KB/s",
    "pci/replay_counter": NUMBER,
    "clocks/graphics_clock": NUMBER + " MHz",
    "clocks/sm_clock": NUMBER + " MHz",
    "clocks/mem_clock": NUMBER + " MHz",
    "clocks/video_clock": NUMBER + " MHz",
    "max_clocks/sm_clock": r"1980 MHz",
    "gpu_power_readings/power_state": r"P\d+",
    "gpu_power_readings/average_power_draw": r"\d+\.\d\d W",
    "gpu_power_readings/instant_power_draw": r"\d+\.\d\d W",
    "gpu_power_readings/current_power_limit": r"700\.00 W",
    "gpu_power_readings/default_power_limit": r"700\.00 W",
    "gpu_power_readings/min_power_limit": r"200\.00 W",
    "gpu_power_readings/max_power_limit": r"700\.00 W",
    "mig_mode/current_mig": r"Disabled",
    "minor_number": r"\d+",
}


@pytest.fixture
def log(training):
    return ET.fromstring(training.ok("-q", "-x"))


def values(gpu):
    return {path: (gpu.findtext(path) or "").strip() for path in PATHS}


def test_head(training, log):
    text = training.ok("-q", "-x")
    assert text.startswith('<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n')
    assert log.tag == "nvidia_smi_log"
    assert log.findtext("driver_version") == "590.48.01"
    assert log.findtext("cuda_version") == "13.1"
    assert log.findtext("attached_gpus") == "3"
    assert [gpu.get("id") for gpu in log.findall("gpu")] == [p.text for p in log.findall("gpu/pci/pci_bus_id")]


def test_what_readers_need(log):
    wrong = {p: v for p, v in values(log.find("gpu")).items() if not re.fullmatch(PATHS[p], v)}
    assert wrong == {}


def test_processes(log):
    infos = log.findall("gpu/processes/process_info")
    assert len(infos) == 2
    assert infos[0].findtext("process_name") == "python"
    assert infos[0].findtext("type") == "C"
    assert int(infos[0].findtext("pid")) > 1
    assert infos[0].findtext("gpu_instance_id") == "N/A"
    assert re.fullmatch(r"\d+ MiB", infos[0].findtext("used_memory"))


def test_boards_differ(boards):
    l40s, t4, a100, b200 = ET.fromstring(boards.ok("-q", "-x")).findall("gpu")
    assert [g.findtext("product_architecture") for g in (l40s, t4, a100, b200)] == [
        "Ada Lovelace", "Turing", "Ampere", "Blackwell"]
    assert t4.findtext("gpu_power_readings/average_power_draw") == "N/A"
    assert t4.findtext("gpu_power_readings/instant_power_draw").endswith(" W")
    assert l40s.findtext("mig_mode/current_mig") == "N/A"


def test_faults_show(make_node):
    reset = make_node("reset-required", at=700)
    gpu = ET.fromstring(reset.ok("-q", "-x", "-i", "6")).find("gpu")
    assert gpu.findtext("fb_memory_usage/used") == "GPU requires reset"
    assert gpu.findtext("product_name") == "NVIDIA B200"


def test_again_and_again(make_node):
    """As netdata reads it: one document after the other."""
    node = make_node("default")
    with node.start("-q", "-x", "-l", "1") as running:
        for _ in range(2):
            document = "".join(iter(running.stdout.readline, "</nvidia_smi_log>\n"))
            assert ET.fromstring(document + "</nvidia_smi_log>").findtext("attached_gpus") == "8"
        running.kill()


@pytest.mark.parametrize("generation", ["535", "590", "610"])
def test_other_libraries(make_node, generation):
    driver = {"535": "535.261.03", "590": "590.48.01", "610": "610.57.04"}[generation]
    node = make_node(f'about: one\nnode: {{driver: "{driver}"}}\ngpus: {{board: a100-sxm4-80gb}}\ntruth: []\n',
                     generation=generation)
    log = ET.fromstring(node.ok("-q", "-x"))
    assert log.findtext("driver_version") == driver
    assert log.findtext("gpu/clocks/sm_clock").endswith(" MHz")
