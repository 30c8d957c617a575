// The names of Hugging Face's ViT and DeiT, and of torchvision's ViT; timm's are ours.
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

const WeightRules kVitNames = weight_rules(
    {
        {"embeddings.cls_token", "cls_token"},
        {"embeddings.distillation_token", "dist_token"},
        {"embeddings.position_embeddings", "pos_embed"},
        {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
        {"layernorm.", "norm."},
        {"(classifier|cls_classifier).", "head."},
        {"distillation_classifier.", "head_dist."},
    },
    vision_block_rules("(encoder.layer|layers).*.", "blocks.*."));

[[maybe_unused]] const bool hugging_face_deit =
    weight_namings().add({.name = "Hugging Face DeiT",
                          .markers = {"deit.embeddings.cls_token"},
                          .prefix = "deit.",
                          .rules = kVitNames});
[[maybe_unused]] const bool hugging_face_vit = weight_namings().add(
    {.name = "Hugging Face ViT", .markers = {"embeddings.cls_token"}, .prefix = "vit.", .rules = kVitNames});

const WeightRules kTorchvisionVitNames = weight_rules({
    {"class_token", "cls_token"},
    {"conv_proj.", "patch_embed.proj."},
    {"encoder.pos_embedding", "pos_embed"},
    {"encoder.layers.encoder_layer_*.ln_1.", "blocks.*.norm1."},
    {"encoder.layers.encoder_layer_*.self_attention.in_proj_", "blocks.*.attn.qkv."},
    {"encoder.layers.encoder_layer_*.self_attention.out_proj.", "blocks.*.attn.proj."},
    {"encoder.layers.encoder_layer_*.ln_2.", "blocks.*.norm2."},
    {"encoder.layers.encoder_layer_*.mlp.(0|linear_1).", "blocks.*.mlp.fc1."},
    {"encoder.layers.encoder_layer_*.mlp.(3|linear_2).", "blocks.*.mlp.fc2."},
    {"encoder.ln.", "norm."},
    {"heads.head.", "head."},
});
[[maybe_unused]] const bool torchvision_vit =
    weight_namings().add({.name = "torchvision ViT",
                          .markers = {"encoder.layers.encoder_layer_0."},
                          .rules = kTorchvisionVitNames});

}  // namespace
}  // namespace saccade
