"""Small models of transformers with random weights, one for each form of the attention."""

from __future__ import annotations

from typing import Any

import torch
import transformers

RESNET = transformers.ResNetConfig(
    embedding_size=8, hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"]
)
RT_RESNET = transformers.RTDetrResNetConfig(
    embedding_size=8,
    hidden_sizes=[8, 16, 16, 24],
    depths=[1, 1, 1, 1],
    layer_type="basic",
    out_features=["stage2", "stage3", "stage4"],
)
SWIN = transformers.SwinConfig(
    embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4, out_features=["stage1", "stage2", "stage3", "stage4"]
)
DETR = dict(
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=32,
    decoder_ffn_dim=32,
    num_queries=20,
)
RT_DETR = dict(
    backbone_config=RT_RESNET,
    encoder_hidden_dim=32,
    encoder_in_channels=[16, 16, 24],
    decoder_in_channels=[32, 32, 32],
    feat_strides=[8, 16, 32],
    encoder_ffn_dim=32,
    decoder_ffn_dim=32,
    d_model=32,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    decoder_layers=2,
    num_queries=20,
    num_denoising=0,
)
MASK = dict(feature_size=32, mask_feature_size=32, hidden_dim=32, num_queries=10, backbone_config=SWIN)


def deformable_detr() -> Any:
    config = transformers.DeformableDetrConfig(backbone_config=RESNET, num_feature_levels=4, **DETR)
    return transformers.DeformableDetrForObjectDetection(config), {}


def grounding_dino() -> Any:
    text = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50
    )
    config = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4, out_features=["stage2", "stage3", "stage4"]
        ),
        text_config=text,
        num_feature_levels=4,
        max_text_len=8,
        **DETR,
    )
    words = torch.tensor([[1, 5, 6, 7, 2]])
    return transformers.GroundingDinoForObjectDetection(config), {"input_ids": words}


def mask2former() -> Any:
    config = transformers.Mask2FormerConfig(encoder_layers=2, encoder_feedforward_dim=32, dim_feedforward=32, **MASK)
    config.num_attention_heads = 4
    return transformers.Mask2FormerForUniversalSegmentation(config), {}


def oneformer() -> Any:
    config = transformers.OneFormerConfig(
        encoder_layers=2,
        encoder_feedforward_dim=32,
        dim_feedforward=32,
        num_attention_heads=4,
        conv_dim=32,
        mask_dim=32,
        hidden_dim=32,
        num_queries=10,
        text_encoder_width=32,
        backbone_config=SWIN,
    )
    return transformers.OneFormerForUniversalSegmentation(config), {"task_inputs": torch.randint(0, 50, (1, 77))}


def rt_detr() -> Any:
    return transformers.RTDetrForObjectDetection(transformers.RTDetrConfig(**RT_DETR)), {}


def rt_detr_v2(method: str = "default") -> Any:
    config = transformers.RTDetrV2Config(decoder_method=method, **RT_DETR)
    return transformers.RTDetrV2ForObjectDetection(config), {}


def d_fine(points: Any = (3, 6, 3)) -> Any:
    backbone = transformers.HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 16, 16, 16],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 16, 16, 24],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[1, 1, 1, 1],
        hidden_sizes=[16, 16, 16, 24],
        depths=[1, 1, 1, 1],
        embedding_size=8,
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.DFineConfig(**{**RT_DETR, "backbone_config": backbone}, decoder_n_points=list(points))
    return transformers.DFineForObjectDetection(config), {}


MODELS = [deformable_detr, grounding_dino, mask2former, oneformer, rt_detr, rt_detr_v2, d_fine]
