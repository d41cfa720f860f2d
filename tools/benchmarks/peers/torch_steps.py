"""torch_steps.py: the models of tools/benchmarks/models.h in PyTorch; see tools/bench.

The definitions are Keras's: epsilon 1e-3 in normalizations, asymmetric padding before a stride of 2, one
bias of the LSTM frozen at 0.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import steps

EPSILON = 1e-3


class Padded(nn.Module):
    """A convolution that pads as "SAME" does: with a stride of 2 at the end alone."""

    def __init__(self, inputs, filters, size, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, filters, size, stride,
                              padding=(size - 1) // 2 if stride == 1 else 0, bias=False)
        self.at_end = size - stride if stride > 1 and size > stride else 0

    def forward(self, x):
        if self.at_end:
            x = F.pad(x, (0, self.at_end, 0, self.at_end))
        return self.conv(x)


class Normalized(nn.Module):
    def __init__(self, inputs, filters, size, stride):
        super().__init__()
        self.conv = Padded(inputs, filters, size, stride)
        self.norm = nn.BatchNorm2d(filters, eps=EPSILON)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.a = Normalized(inputs, filters, 3, stride)
        self.b = Normalized(filters, filters, 3, 1)
        self.s = (nn.Identity() if inputs == filters and stride == 1
                  else Normalized(inputs, filters, 1, stride))

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.s(x))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(65, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.dense = nn.Linear(128, 65)

    def forward(self, x):
        return self.dense(self.lstm(self.embedding(x))[0])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_a = nn.LayerNorm(width, eps=EPSILON)
        self.attention = Attention(width, heads)
        self.norm_b = nn.LayerNorm(width, eps=EPSILON)
        self.dense_a = nn.Linear(width, 4 * width)
        self.dense_b = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_a(x))
        return x + self.dense_b(F.gelu(self.dense_a(self.norm_b(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(65, 128)
        self.blocks = nn.Sequential(*[GptBlock(128, 4) for _ in range(4)])
        self.norm = nn.LayerNorm(128, eps=EPSILON)
        self.dense = nn.Linear(128, 65)

    def forward(self, x):
        return self.dense(self.norm(self.blocks(self.embedding(x))))


class Weights:
    """Copies what the start file has into modules; layers are named as there."""

    def __init__(self, start):
        self.start = start

    def put(self, parameter, value):
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(value)))

    def dense(self, module, name, image=None):
        """`image`: height, width and channels of what was flattened before the layer."""
        kernel = self.start[name + "/kernel"]
        if image:
            kernel = kernel.reshape(*image, -1).transpose(2, 0, 1, 3).reshape(kernel.shape)
        self.put(module.weight, kernel.T)
        self.put(module.bias, self.start[name + "/bias"])

    def conv(self, module, name):
        self.put(module.weight, self.start[name + "/kernel"].transpose(3, 2, 0, 1))
        if module.bias is not None:
            self.put(module.bias, self.start[name + "/bias"])

    def norm(self, module, name):
        self.put(module.weight, self.start[name + "/gamma"])
        self.put(module.bias, self.start[name + "/beta"])

    def normalized(self, module, suffix):
        self.conv(module.conv.conv, "conv" + suffix)
        self.norm(module.norm, "norm" + suffix)

    def attention(self, module, name):
        width = module.out.in_features
        parts = [(self.start[f"{name}/{part}/kernel"].reshape(width, width),
                  self.start[f"{name}/{part}/bias"].reshape(width))
                 for part in ("query", "key", "value")]
        self.put(module.qkv.weight, np.concatenate([kernel.T for kernel, _ in parts]))
        self.put(module.qkv.bias, np.concatenate([bias for _, bias in parts]))
        self.put(module.out.weight,
                 self.start[name + "/attention_output/kernel"].reshape(width, width).T)
        self.put(module.out.bias, self.start[name + "/attention_output/bias"])


def cnn(weights):
    model = nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(64 * 169, 128), nn.ReLU(), nn.Linear(128, 10))
    weights.conv(model[0], "conv")
    weights.dense(model[4], "dense_a", (13, 13, 64))
    weights.dense(model[6], "dense_b")
    return model


def mlp(weights):
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    weights.dense(model[0], "dense_a")
    weights.dense(model[2], "dense_b")
    return model


def lenet(weights):
    model = nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
                          nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
                          nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    weights.conv(model[0], "conv_a")
    weights.conv(model[3], "conv_b")
    weights.dense(model[7], "dense_a", (5, 5, 16))
    weights.dense(model[9], "dense_b")
    weights.dense(model[11], "dense_c")
    return model


def resnet8(weights):
    model = nn.Sequential(Normalized(3, 16, 3, 1), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2),
                          Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(64, 10))
    weights.normalized(model[0], "")
    for number in range(3):
        block = model[2 + number]
        weights.normalized(block.a, f"_{number}_a")
        weights.normalized(block.b, f"_{number}_b")
        if isinstance(block.s, Normalized):
            weights.normalized(block.s, f"_{number}_s")
    weights.dense(model[7], "dense")
    return model


def lstm(weights):
    model = Lstm()
    start = weights.start
    weights.put(model.embedding.weight, start["embedding/embeddings"])
    weights.put(model.lstm.weight_ih_l0, start["lstm/kernel"].T)
    weights.put(model.lstm.weight_hh_l0, start["lstm/recurrent_kernel"].T)
    weights.put(model.lstm.bias_ih_l0, start["lstm/bias"])
    weights.put(model.lstm.bias_hh_l0, np.zeros_like(start["lstm/bias"]))
    model.lstm.bias_hh_l0.requires_grad_(False)
    weights.dense(model.dense, "dense")
    return model


def gpt(weights):
    model = Gpt()
    weights.put(model.embedding.weight, weights.start["embedding/embeddings"])
    for number, block in enumerate(model.blocks):
        name = f"_{number}"
        weights.norm(block.norm_a, f"norm{name}_a")
        weights.attention(block.attention, "attention" + name)
        weights.norm(block.norm_b, f"norm{name}_b")
        weights.dense(block.dense_a, f"dense{name}_a")
        weights.dense(block.dense_b, f"dense{name}_b")
    weights.norm(model.norm, "norm")
    weights.dense(model.dense, "dense")
    return model


class KerasAdam(torch.optim.Optimizer):
    """Adam with epsilon where Keras has it, before the second moment is corrected. Where a loss rises
    and falls steeply PyTorch's own ends elsewhere; so losses are compared with this, and times are
    those of PyTorch's."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        rate = 1e-3 * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["m"] = torch.zeros_like(parameter)
                    state["v"] = torch.zeros_like(parameter)
                gradient = parameter.grad
                state["m"].lerp_(gradient, 0.1)
                state["v"].lerp_(gradient * gradient, 0.001)
                parameter -= rate * state["m"] / (state["v"].sqrt() + 1e-7)


def adam(parameters, check):
    if check:
        return KerasAdam(parameters)
    return torch.optim.Adam(parameters, 1e-3, eps=1e-7, fused=True)


def momentum(parameters, check):  # pylint: disable=unused-argument
    return torch.optim.SGD(parameters, 1e-3, momentum=0.9, fused=True)


MODELS = {
    "cnn64-b64": (cnn, adam), "mlp-b64": (mlp, adam), "lenet-b4": (lenet, momentum),
    "lenet-b64": (lenet, momentum), "resnet8-b64": (resnet8, momentum),
    "lstm128-b32-t64": (lstm, adam), "gpt4x128-b16-t128": (gpt, adam),
}


def main():
    options = steps.arguments(["eager", "channels_last", "compile"])
    torch.set_num_threads(options.threads)
    start = np.load(options.start)
    make_model, make_optimizer = MODELS[options.model]
    model = make_model(Weights(start))
    x = torch.from_numpy(start["batch_0"])
    y = torch.from_numpy(start["batch_1"]).long()
    if x.dtype == torch.int32:
        x = x.long()
    if x.dim() == 4:
        x = x.permute(0, 3, 1, 2).contiguous()
    if options.variant == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    call = torch.compile(model) if options.variant == "compile" else model
    if options.inference:
        model.eval()
        one = x[:1]
        with torch.no_grad():
            steps.run(options, lambda: call(one).numpy())
        return
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad], options.check)

    def train():
        optimizer.zero_grad(set_to_none=True)
        outputs = call(x)
        loss = F.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    steps.run(options, train)


main()
